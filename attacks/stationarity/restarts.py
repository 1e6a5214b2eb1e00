"""The restarts of a search: which have ended, what they have spent, and how they go on after a kill."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.base import AttackContext, DivergedError

SEARCH = "search."
"""What begins the names of a checkpoint's tensors that are of the restart in progress."""


@dataclass(frozen=True)
class Restart:
    """The end of one: candidates (m, d), how much each weighs (m,), and the share of theta left unexplained."""

    candidates: Tensor
    sizes: Tensor
    loss: float


class Restarts:
    """So many restarts of so many steps, a batch at a time, under the budget and the eyes of one context.

    Args:
        ctx: that of the attack; what its last checkpoint holds has ended already.
        total: how many restarts there are.
        steps: of each.
        like: a tensor of the precision and on the device of the search.

    Attributes:
        ended: those that have ended.
        unfinished: the checkpoint's state of the restart in progress, from which it goes on; empty if there is none.
        spent: steps in all.
    """

    def __init__(self, ctx: AttackContext, total: int, steps: int, like: Tensor) -> None:
        self.ctx, self.total, self.steps = ctx, total, steps
        self.ended: list[Restart] = []
        self.unfinished: dict[str, Tensor] = {}
        if state := ctx.resume():
            ctx.generator.set_state(state["generator"])
            if "losses" in state:
                ends = zip(state["candidates"].to(like), state["sizes"].to(like), state["losses"].tolist(), strict=True)
                self.ended = [Restart(*end) for end in ends]
            of_search = {name: value for name, value in state.items() if name.startswith(SEARCH)}
            self.unfinished = {name.removeprefix(SEARCH): value for name, value in of_search.items()}
        self.spent = len(self.ended) * steps
        self._count, self._begun = 0, ctx.generator.get_state()

    def next(self, together: int) -> int:
        """Return how many restarts begin now, at most `together`; 0 when all have ended or the budget is spent."""
        self._count = min(together, self.total - len(self.ended))
        if self.ended and self.ctx.expired(self.spent):
            return 0
        self._begun = self.ctx.generator.get_state()
        return self._count

    def report(self, step: int, residual: float) -> None:
        """Tell where the batch is, and what its best restart leaves unexplained.

        Raises:
            DivergedError: the residual is not finite.
        """
        if not math.isfinite(residual):
            raise DivergedError(f"the residual is not finite after {step} steps")
        self.ctx.report(self._after(step), self.total * self.steps, residual=residual)

    def expired(self, step: int) -> bool:
        """Say whether the budget is spent after so many steps of the batch."""
        self.spent = self._after(step)
        return self.ctx.expired(self.spent)

    def checkpoint(self, state: Callable[[], dict[str, Tensor]]) -> None:
        """Offer the state of the restart in progress."""
        self.ctx.checkpoint(lambda: self._packed(self._begun) | {f"{SEARCH}{k}": v for k, v in state().items()})

    def end(self, found: list[Restart]) -> None:
        """Take what the batch has found; if it was stopped halfway, only where there is nothing better."""
        self.unfinished = {}
        if self.ctx.stopped and self.ended:
            return  # it would only blur what the finished ones have
        if not self.ctx.stopped:
            self.spent = self._after(self.steps)
        self.ended += found
        self.ctx.checkpoint(lambda: self._packed(self.ctx.generator.get_state()))

    def _after(self, step: int) -> int:
        return len(self.ended) * self.steps + self._count * step

    def _packed(self, generator: Tensor) -> dict[str, Tensor]:
        """Return the ended restarts, and the generator's state before the next, as a checkpoint keeps them."""
        packed = {"generator": generator}
        if self.ended:
            packed["candidates"] = torch.stack([one.candidates for one in self.ended])
            packed["sizes"] = torch.stack([one.sizes for one in self.ended])
            packed["losses"] = torch.tensor([one.loss for one in self.ended], dtype=torch.float64)
        return packed
