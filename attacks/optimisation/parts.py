"""The parts of an attack, one after another: their steps add up, and a checkpoint says in which part it was kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attacks.base import AttackContext
from victims.files import below, under

HELD, PART, ENDED = "held.", "part.", "ended."
"""Prefixes of the names of a checkpoint's tensors: those a part began with, its own, and what `in_turn` has had."""
CUT = "cut"
"""Name of the tensor that says whether the budget of what is held was spent."""


class Parts:
    """The parts of one run under the budget of its context.

    Args:
        ctx: the attack's context.
        total: steps of all parts, at most.

    Attributes:
        ctx: as given.
        held: the tensors that the part in progress began with, by name; empty before the first.
        state: the part's own state in the last checkpoint; empty to begin.
        ended: the tensors that `in_turn` has had.
        done: steps of the parts before it.
        window: the share of the budget at which the parts in progress begin, and that at which they end.
        share: of this window that the parts until now may spend, in (0, 1]; the rest is for those that follow.
        stopped: whether that is spent.
    """

    def __init__(self, ctx: AttackContext, total: int) -> None:
        self.ctx, self.total = ctx, total
        state = ctx.resume()
        self.held, self.state, self.ended = below(HELD, state), below(PART, state), below(ENDED, state)
        self.done, self.stopped = int(state.get("done", 0)), False
        self.window, self.share = (0.0, 1.0), 1.0
        if state:
            ctx.generator.set_state(state["generator"])

    def begin(self, held: dict[str, Tensor]) -> None:
        """Begin a part with these tensors by name; the state that a checkpoint has of the part itself is kept."""
        self.held = held

    def in_turn(self, works: Sequence[Callable[[], dict[str, Tensor]]]) -> list[dict[str, Tensor]]:
        """Return the tensors by name that works of some parts each end with, one after another.

        Each has an equal share of the budget, and what those before it left of theirs. The budget counts as spent if
        one of them has spent its share. A run that was interrupted does not repeat those that had ended.

        Args:
            works: one or more, which are all that the run does; each returns the tensors, and under `CUT` whether its
                budget was spent.
        """
        found, cut = list[dict[str, Tensor]](), False
        for index, work in enumerate(works):
            self.window = index / len(works), (index + 1) / len(works)
            ended = self._once(str(index), work)
            found.append(ended)
            cut, self.stopped = cut or bool(ended[CUT]), False
        self.stopped = cut
        self.ctx.stopped |= cut
        return found

    def _once(self, name: str, work: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """Return what a work ends with; it is not called where a checkpoint has that."""
        known = below(f"{name}.", self.ended)
        if not known:
            known = work()
            self.ended, self.held = {**self.ended, **under(f"{name}.", known)}, {}
        return known

    def expired(self, step: int) -> bool:
        """Say whether the budget, or the share of it, is spent after so many steps of this part."""
        seconds = self.ctx.budget.seconds
        late = seconds is not None and self.ctx.seconds >= self._until * seconds
        late |= self.left(step) <= 0
        self.stopped |= self.ctx.expired(self.done + step) or late
        return self.stopped

    def left(self, step: int) -> float:
        """Return how many steps the budget, or the share of it, leaves after so many of this part; inf without."""
        steps = self.ctx.budget.steps
        return math.inf if steps is None else math.ceil(self._until * steps) - self.done - step

    @property
    def _until(self) -> float:
        """The share of the budget that the parts until now may spend."""
        begin, end = self.window
        return begin + self.share * (end - begin)

    def report(self, step: int, **figures: float) -> None:
        """Report so many steps of this part."""
        self.ctx.report(self.done + step, self.total, **figures)

    def checkpoint(self, state: Callable[[], dict[str, Tensor]]) -> None:
        """Offer the context the state of this part."""
        self.ctx.checkpoint(
            lambda: (
                {"done": torch.tensor(self.done), "generator": self.ctx.generator.get_state()}
                | under(HELD, self.held)
                | under(PART, state())
                | under(ENDED, self.ended)
            )
        )

    def end(self, steps: int) -> None:
        """End this part after so many steps."""
        self.done, self.state = self.done + steps, {}
