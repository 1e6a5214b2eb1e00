"""The restarts of a search: those that have ended, the steps they took, and the checkpoints they go on from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.base import AttackContext, DivergedError
from victims.files import below, under

SEARCH = "search."
"""Prefix of the names of a checkpoint's tensors that belong to the batch in progress."""

AFTER = "after."
"""Prefix of the names of a checkpoint's tensors that belong to the search after the last restart."""


@dataclass(frozen=True)
class Restart:
    """A restart that has ended.

    Attributes:
        candidates: (m, d).
        sizes: (m,) the weight of each candidate.
        loss: the relative residual.
        consistency: (m,) how far each candidate follows from the weights, or, after rounds, how far it keeps to the
            spans that the weights show; None where the ranking does not use it.
        coefficients: (m, ...) of each candidate; None where no later restart begins with them.
    """

    candidates: Tensor
    sizes: Tensor
    loss: float
    consistency: Tensor | None = None
    coefficients: Tensor | None = None


class Restarts:
    """The restarts of one run, batch after batch, under the budget of its context.

    A restart that diverges is left out, and does not end the others.

    Args:
        ctx: the attack's context; the restarts in its last checkpoint have ended already.
        total: number of restarts.
        steps: number of steps of each.
        like: a tensor of the precision and on the device of the search.

    Attributes:
        ended: the restarts that have ended, those that diverged too.
        unfinished: the state of the batch in progress, from a checkpoint; empty if there is none.
        after: the state of what follows the last restart, likewise.
        spent: number of steps that all restarts took.
    """

    def __init__(self, ctx: AttackContext, total: int, steps: int, like: Tensor) -> None:
        self.ctx, self.total, self.steps = ctx, total, steps
        self.ended: list[Restart] = []
        self.unfinished: dict[str, Tensor] = {}
        self.after: dict[str, Tensor] = {}
        self.spent = self._count = 0
        if state := ctx.resume():
            ctx.generator.set_state(state["generator"])
            if "losses" in state:
                self.ended = _unpacked(state, like)
            self.unfinished, self.after = below(SEARCH, state), below(AFTER, state)
            self.spent, self._count = int(state["spent"]), int(state["restarts"])
        self._before, self._diverged, self._begun = self.spent, False, ctx.generator.get_state()

    @property
    def finite(self) -> list[Restart]:
        """The restarts that have ended and not diverged."""
        return [one for one in self.ended if math.isfinite(one.loss)]

    def next(self, most: int) -> int:
        """Return the number of restarts that begin now, at most `most`; 0 if all have ended or the budget is spent.

        A batch that goes on from a checkpoint has as many restarts as it had.
        """
        if self.ended and self.ctx.expired(self.spent):
            return 0
        left = self.total - len(self.ended)
        self._count = self._count if self.unfinished else min(most, left)
        self._before, self._diverged, self._begun = self.spent, False, self.ctx.generator.get_state()
        return self._count

    def report(self, step: int, residuals: list[float]) -> None:
        """Report the batch's progress and its smallest relative residual; let it end if all its restarts diverged."""
        finite = [residual for residual in residuals if math.isfinite(residual)]
        if finite:
            self.ctx.report(self._before + self._count * step, self.total * self.steps, residual=min(finite))
        self._diverged = not finite

    def expired(self, step: int) -> bool:
        """Say whether the batch ends after `step` steps: the budget is spent, or all its restarts have diverged."""
        self.spent = self._before + self._count * step
        return self._diverged or self.ctx.expired(self.spent)

    def checkpoint(self, state: Callable[[], dict[str, Tensor]]) -> None:
        """Offer the context the state of the batch in progress, unless all its restarts have diverged."""
        if not self._diverged:
            self.ctx.checkpoint(lambda: self._packed(self._begun, self._before) | under(SEARCH, state()))

    def checkpoint_after(self, state: Callable[[], dict[str, Tensor]]) -> None:
        """Offer the context the state of what follows the last restart."""
        self.ctx.checkpoint(lambda: self._packed(self.ctx.generator.get_state(), self.spent) | under(AFTER, state()))

    def end(self, found: list[Restart]) -> None:
        """Add the restarts of a batch; a batch that was stopped counts only if no other restart has ended."""
        self.unfinished = {}
        if self.ctx.stopped and self.finite:
            return
        if not (self.ctx.stopped or self._diverged):
            self.spent = self._before + self._count * self.steps
        self.ended += found
        self.ctx.checkpoint(lambda: self._packed(self.ctx.generator.get_state(), self.spent))

    def kept(self) -> tuple[list[Restart], tuple[str, ...]]:
        """Return the restarts that have not diverged, and a flag that counts the others, if there are any.

        Raises:
            DivergedError: all restarts diverged.
        """
        finite, ended = self.finite, len(self.ended)
        if not finite:
            raise DivergedError(f"the residual is not finite at the end of any of {ended} restarts")
        lost = ended - len(finite)
        return finite, (f"{lost} of {ended} restarts diverged and were left out",) if lost else ()

    def _packed(self, generator: Tensor, spent: int) -> dict[str, Tensor]:
        """Return a checkpoint's tensors: ended restarts, the generator's state before the next, and the steps spent."""
        packed = {"generator": generator, "spent": torch.tensor(spent), "restarts": torch.tensor(self._count)}
        if self.ended:
            packed["candidates"] = torch.cat([one.candidates for one in self.ended])
            packed["sizes"] = torch.cat([one.sizes for one in self.ended])
            packed["counts"] = torch.tensor([len(one.sizes) for one in self.ended])
            packed["losses"] = torch.tensor([one.loss for one in self.ended], dtype=torch.float64)
            if any(one.consistency is not None for one in self.ended):  # zeros for those that diverged
                follows = [
                    torch.zeros_like(one.sizes) if one.consistency is None else one.consistency for one in self.ended
                ]
                packed["consistencies"] = torch.cat(follows)
            given = [one.coefficients for one in self.ended if one.coefficients is not None]
            if given:  # of all restarts or of none
                packed["coefficients"] = torch.cat(given)
        return packed


def _unpacked(state: dict[str, Tensor], like: Tensor) -> list[Restart]:
    """Return the restarts that have ended, from the tensors of `Restarts._packed`, as tensors like `like`."""
    losses, counts = state["losses"].tolist(), state["counts"].tolist()

    def parts(name: str) -> Sequence[Tensor]:
        return torch.split(state[name].to(like), counts)

    follows, given = (
        parts(name) if name in state else [None] * len(losses) for name in ("consistencies", "coefficients")
    )
    ends = zip(parts("candidates"), parts("sizes"), losses, follows, given, strict=True)
    return [Restart(*end) for end in ends]
