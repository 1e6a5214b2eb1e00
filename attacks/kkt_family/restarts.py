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

    A restart that diverges does not end those beside it or after it: it is left out.

    Args:
        ctx: that of the attack; what its last checkpoint holds has ended already.
        total: how many restarts there are.
        steps: of each.
        like: a tensor of the precision and on the device of the search.

    Attributes:
        ended: those that have ended, the diverged ones too.
        unfinished: the checkpoint's state of the batch in progress, from which it goes on; empty if there is none.
        spent: steps in all.
    """

    def __init__(self, ctx: AttackContext, total: int, steps: int, like: Tensor) -> None:
        self.ctx, self.total, self.steps = ctx, total, steps
        self.ended: list[Restart] = []
        self.unfinished: dict[str, Tensor] = {}
        self.spent = self._count = 0
        if state := ctx.resume():
            ctx.generator.set_state(state["generator"])
            if "losses" in state:
                ends = zip(state["candidates"].to(like), state["sizes"].to(like), state["losses"].tolist(), strict=True)
                self.ended = [Restart(*end) for end in ends]
            of_search = {name: value for name, value in state.items() if name.startswith(SEARCH)}
            self.unfinished = {name.removeprefix(SEARCH): value for name, value in of_search.items()}
            self.spent, self._count = int(state["spent"]), int(state["together"])
        self._before, self._diverged, self._begun = self.spent, False, ctx.generator.get_state()

    @property
    def finite(self) -> list[Restart]:
        """The restarts that have ended and not diverged."""
        return [one for one in self.ended if math.isfinite(one.loss)]

    def next(self, together: int) -> int:
        """Return how many restarts begin now, at most `together`; 0 when all have ended or the budget is spent.

        The batch that a checkpoint was taken in goes on with as many as it had.
        """
        if self.ended and self.ctx.expired(self.spent):
            return 0
        left = self.total - len(self.ended)
        self._count = self._count if self.unfinished else min(together, left)
        self._before, self._diverged, self._begun = self.spent, False, self.ctx.generator.get_state()
        return self._count

    def report(self, step: int, residuals: list[float]) -> None:
        """Tell where the batch is, and what its best restart leaves unexplained; end it where all have diverged."""
        finite = [residual for residual in residuals if math.isfinite(residual)]
        if finite:
            self.ctx.report(self._before + self._count * step, self.total * self.steps, residual=min(finite))
        self._diverged = not finite

    def expired(self, step: int) -> bool:
        """Say whether the batch ends after so many steps: the budget is spent, or all of it has diverged."""
        self.spent = self._before + self._count * step
        return self._diverged or self.ctx.expired(self.spent)

    def checkpoint(self, state: Callable[[], dict[str, Tensor]]) -> None:
        """Offer the state of the batch in progress, unless all of it has diverged."""
        if not self._diverged:
            self.ctx.checkpoint(
                lambda: self._packed(self._begun, self._before) | {f"{SEARCH}{k}": v for k, v in state().items()}
            )

    def end(self, found: list[Restart]) -> None:
        """Take what the batch has found; if it was stopped halfway, only where there is nothing better."""
        self.unfinished = {}
        if self.ctx.stopped and self.finite:
            return  # it would only blur what the finished ones have
        if not (self.ctx.stopped or self._diverged):
            self.spent = self._before + self._count * self.steps
        self.ended += found
        self.ctx.checkpoint(lambda: self._packed(self.ctx.generator.get_state(), self.spent))

    def kept(self) -> tuple[list[Restart], tuple[str, ...]]:
        """Return the restarts that have not diverged, and what the reader of the row should know of the others.

        Raises:
            DivergedError: all of them have.
        """
        finite, ended = self.finite, len(self.ended)
        if not finite:
            raise DivergedError(f"the residual is not finite at the end of any of {ended} restarts")
        lost = ended - len(finite)
        return finite, (f"{lost} of {ended} restarts diverged and were left out",) if lost else ()

    def _packed(self, generator: Tensor, spent: int) -> dict[str, Tensor]:
        """Return the ended restarts, the generator's state before the next, and the steps, for a checkpoint."""
        packed = {"generator": generator, "spent": torch.tensor(spent), "together": torch.tensor(self._count)}
        if self.ended:
            packed["candidates"] = torch.stack([one.candidates for one in self.ended])
            packed["sizes"] = torch.stack([one.sizes for one in self.ended])
            packed["losses"] = torch.tensor([one.loss for one in self.ended], dtype=torch.float64)
        return packed
