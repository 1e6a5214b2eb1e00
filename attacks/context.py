"""What the harness lends an attack for one run: device, randomness, budget, checkpoints. Imports no torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Budget:
    """What an attack may spend on one run.

    Attributes:
        seconds: wall time, None for no limit.
        steps: optimiser steps, those of all restarts together, None for no limit.
    """

    seconds: float | None = None
    steps: int | None = None

    def __str__(self) -> str:
        """Return it as `--budget` takes it, empty if there is no limit."""
        seconds = "" if self.seconds is None else f"{self.seconds:g}s"
        return seconds if self.steps is None else f"{self.steps}steps"


UNLIMITED = Budget()


@dataclass
class Checkpoint:
    """How far an attack is.

    Attributes:
        state: tensors by name, all that the attack needs to go on as if nothing had happened.
        trace: its rows so far.
        seconds: wall time so far.
    """

    state: dict[str, Tensor]
    trace: list[dict[str, float]]
    seconds: float


class Checkpoints(Protocol):
    """Where the harness keeps the last checkpoint of a run."""

    def load(self) -> Checkpoint | None:
        """Return the last checkpoint, None if there is none."""

    def save(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint in the place of the last one."""


CHECKPOINT_SECONDS = 30.0


def _no_perceptual() -> Callable[[Tensor, Tensor], Tensor]:
    raise LookupError("this context lends no LPIPS")


@dataclass
class AttackContext:
    """What the harness lends an attack for one run.

    Attributes:
        device: where to compute.
        generator: seeded CPU generator; the attack's only source of randomness.
        progress: `progress(step, steps, **figures)` tells the user where the attack is; the first figure is its
            objective, the lower the better, by which `tune` may stop a trial.
        budget: what the attack may spend; ask with `expired`.
        checkpoints: where `checkpoint` keeps and `resume` finds, None for nowhere.
        perceptual: fetches LPIPS, differentiable: of two batches (k, C, H, W) in [0, 1] it returns (k,).
        trace: rows of figures over time, stored beside the reconstruction; append with `record`.
        started: when it began, on the clock of `time.monotonic`; a resumed attack that much earlier as it had run.
        stopped: `expired` has told the attack to stop.
    """

    device: torch.device
    generator: torch.Generator
    progress: Callable[..., None]
    budget: Budget = UNLIMITED
    checkpoints: Checkpoints | None = None
    perceptual: Callable[[], Callable[[Tensor, Tensor], Tensor]] = _no_perceptual
    trace: list[dict[str, float]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    stopped: bool = False
    _saved: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """The wall time of the attack so far, that of the process it is resumed from included."""
        return time.monotonic() - self.started

    def expired(self, step: int) -> bool:
        """Say whether the budget is spent after `step` steps in all; the attack then returns the best that it has.

        A run with a budget of wall time is killed, and gets a row `timeout`, when it goes on long after that.
        """
        seconds, steps = self.budget.seconds, self.budget.steps
        self.stopped |= (seconds is not None and self.seconds >= seconds) or (steps is not None and step >= steps)
        return self.stopped

    def checkpoint(self, state: Callable[[], dict[str, Tensor]]) -> None:
        """Keep what `state()` returns, if the last checkpoint is old enough for another one.

        The tensors must be all that the attack needs to go on and to end with the very candidates of an attack that
        nobody disturbed: optimiser, step, and the state of `generator` if it draws again.
        """
        if self.checkpoints is not None and time.monotonic() - self._saved >= CHECKPOINT_SECONDS:
            self.checkpoints.save(Checkpoint(state(), self.trace, self.seconds))
            self._saved = time.monotonic()

    def resume(self) -> dict[str, Tensor]:
        """Return the state of the last checkpoint, on the CPU, and take up its trace and clock; empty if there is none.

        An attack that calls `checkpoint` calls it first of all.
        """
        last = None if self.checkpoints is None else self.checkpoints.load()
        if last is None:
            return {}
        self.trace[:] = last.trace
        self.started -= last.seconds
        return last.state

    def record(self, step: int, **figures: float) -> None:
        """Append a row to the trace, with the seconds since the start."""
        self.trace.append({"step": step, "wall_s": self.seconds, **figures})

    def report(self, step: int, steps: int, **figures: float) -> None:
        """Tell the user where the attack is, and append the same to the trace."""
        self.progress(step, steps, **figures)
        self.record(step, **figures)
