"""The parts of an attack, one after another: their steps add up, and a checkpoint says in which part it was kept."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attacks.base import AttackContext
from victims.files import below, under

HELD, PART, ENDED = "held.", "part.", "ended."
"""Prefixes of the names of a checkpoint's tensors: those that a part began with, its own, and what `once` has had."""


class Parts:
    """The parts of one run under the budget of its context.

    Args:
        ctx: the attack's context.
        total: steps of all parts, at most.

    Attributes:
        ctx: as given.
        held: the tensors that the part in progress began with, by name; empty before the first.
        state: the part's own state in the last checkpoint; empty to begin.
        ended: the tensors that `once` has had.
        done: steps of the parts before it.
        share: of the budget that the parts until now may spend, in (0, 1]; the rest is for those that follow.
        stopped: whether that is spent.
    """

    def __init__(self, ctx: AttackContext, total: int) -> None:
        self.ctx, self.total = ctx, total
        state = ctx.resume()
        self.held, self.state, self.ended = below(HELD, state), below(PART, state), below(ENDED, state)
        self.done, self.stopped, self.share = int(state.get("done", 0)), False, 1.0
        if state:
            ctx.generator.set_state(state["generator"])

    def begin(self, held: dict[str, Tensor]) -> None:
        """Begin a part with these tensors by name; the state that a checkpoint has of the part itself is kept."""
        self.held = held

    def once(self, name: str, found: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """Return tensors by name that some parts end with; a run that was interrupted later has them still.

        Args:
            name: theirs.
            found: returns them; not called where a checkpoint has them.
        """
        known = below(f"{name}.", self.ended)
        if not known:
            known = found()
            self.ended, self.held = {**self.ended, **under(f"{name}.", known)}, {}
        return known

    def expired(self, step: int) -> bool:
        """Say whether the budget, or the share of it, is spent after so many steps of this part."""
        seconds = self.ctx.budget.seconds
        late = seconds is not None and self.ctx.seconds >= self.share * seconds
        late |= self.left(step) <= 0
        self.stopped |= self.ctx.expired(self.done + step) or late
        return self.stopped

    def left(self, step: int) -> float:
        """Return how many steps the budget, or the share of it, leaves after so many of this part; inf without."""
        steps = self.ctx.budget.steps
        return math.inf if steps is None else math.ceil(self.share * steps) - self.done - step

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
