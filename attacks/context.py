"""The context of an attack in one run: device, randomness, budget, checkpoints. Imports no torch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Budget:
    """The budget of an attack in one run.

    Attributes:
        seconds: wall time, None for no limit.
        steps: optimiser steps of all restarts in sum, None for no limit.
    """

    seconds: float | None = None
    steps: int | None = None

    def __str__(self) -> str:
        """Return the text that `--budget` takes for it, empty if there is no limit."""
        if self.steps is not None:
            return f"{self.steps}steps"
        if self.seconds is None:
            return ""
        text = f"{self.seconds:g}"
        if "e" in text:  # a million seconds, or less than a ten-thousandth of one
            text = f"{Decimal(str(round(self.seconds, 15))):f}".removesuffix(".0")
        return f"{text}s"


UNLIMITED = Budget()


@dataclass
class Checkpoint:
    """The state of an attack that has not ended.

    Attributes:
        state: tensors by name, from which the attack goes on as if nothing had happened.
        trace: its rows so far.
        seconds: wall time so far.
    """

    state: dict[str, Tensor]
    trace: list[dict[str, float]]
    seconds: float


class Checkpoints(Protocol):
    """The store in which the harness keeps the last checkpoint of a run."""

    def load(self) -> Checkpoint | None:
        """Return the last checkpoint, None if there is none."""

    def save(self, checkpoint: Checkpoint) -> None:
        """Replace the last checkpoint by this one."""


CHECKPOINT_SECONDS = 30.0


def _no_perceptual() -> Callable[[Tensor, Tensor], Tensor]:
    raise LookupError("this context lends no LPIPS")


@dataclass
class AttackContext:
    """The context of an attack in one run.

    Attributes:
        device: the device to compute on.
        generator: seeded CPU generator; the attack's only source of randomness.
        progress: `progress(step, steps, **figures)` tells the user how far the attack is. The first figure is its
            objective, the lower the better; `tune` may stop a trial by it.
        budget: the attack's budget; ask `expired` whether it is spent.
        checkpoints: the store of `checkpoint` and `resume`, None for no checkpoints.
        perceptual: returns LPIPS, a differentiable function of two batches (k, C, H, W) in [0, 1] that returns (k,).
        trace: rows of figures over time, stored beside the reconstruction; append with `record`.
        started: start time on the clock of `time.monotonic`; for a resumed attack it is earlier by the time it had run.
        stopped: whether `expired` has told the attack to stop.
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
    _resumed: bool = False

    @property
    def seconds(self) -> float:
        """The wall time of the attack so far, in seconds, with the time of the processes before a resume."""
        return time.monotonic() - self.started

    def expired(self, step: int) -> bool:
        """Say whether the budget is spent after `step` steps; the attack then returns the best that it has.

        A run that goes on long after its budget of wall time is killed, and its row is `timeout`.
        """
        seconds, steps = self.budget.seconds, self.budget.steps
        self.stopped |= (seconds is not None and self.seconds >= seconds) or (steps is not None and step >= steps)
        return self.stopped

    def checkpoint(self, state: Callable[[], dict[str, Tensor]]) -> None:
        """Keep what `state()` returns, if the last checkpoint is older than `CHECKPOINT_SECONDS`.

        With these tensors the attack must go on to the same candidates as without an interruption: they hold the
        optimiser's state, the step, and the state of `generator` if the attack draws again.
        """
        if self.checkpoints is not None and time.monotonic() - self._saved >= CHECKPOINT_SECONDS:
            self.checkpoints.save(Checkpoint(state(), self.trace, self.seconds))
            self._saved = time.monotonic()

    def resume(self) -> dict[str, Tensor]:
        """Return the last checkpoint's state on the CPU, empty if there is none, and restore its trace and clock.

        An attack that calls `checkpoint` calls `resume` first of all. Trace and clock are restored once, however often
        the state is asked for.
        """
        last = None if self.checkpoints is None else self.checkpoints.load()
        if last is None:
            return {}
        if not self._resumed:
            self.trace[:], self._resumed = last.trace, True
            self.started -= last.seconds
        return last.state

    def record(self, step: int, **figures: float) -> None:
        """Append a row to the trace, with the seconds since the start."""
        self.trace.append({"step": step, "wall_s": self.seconds, **figures})

    def report(self, step: int, steps: int, **figures: float) -> None:
        """Tell the user how far the attack is, and append the same figures to the trace."""
        self.progress(step, steps, **figures)
        self.record(step, **figures)
