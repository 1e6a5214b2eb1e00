"""The contract of an attack: what it may know, what it is given, what it returns. Imports no torch."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from attacks.search_space import Range

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from victims.spec import ConvSpec, Loss, MLPSpec, VictimSpec


class Knowledge(StrEnum):
    """An item of the knowledge ledger: what an attack may be told about its victim."""

    ARCHITECTURE = "architecture"
    WEIGHTS = "weights"
    CLASS_BALANCE = "class balance"
    N = "n"
    LABELS = "labels"
    DATA_MEAN = "data mean"
    LOSS = "loss"
    WEIGHT_DECAY = "weight decay"
    SHADOW_POOL = "shadow pool"
    LOGITS = "logits of chosen inputs"
    TRAINING_IMAGES = "oracle: training images"


ORACLE = "oracle"
"""What the name of an item that no attacker has begins with: it serves experiments, and its rows are not ranked."""


class UndeclaredKnowledgeError(RuntimeError):
    """An attack read an item that it did not declare in `needs`."""


class DivergedError(ArithmeticError):
    """The attack ended in numbers that are not finite; its row is `diverged`."""


@dataclass(frozen=True)
class Architecture:
    """What is public about a network: its specification and the shape (C, H, W) of one input."""

    spec: MLPSpec | ConvSpec
    input_shape: tuple[int, int, int]


class VictimView:
    """A victim as an attack sees it: every item that it declared, and an error on anything else."""

    def __init__(self, facts: dict[Knowledge, Any], allowed: frozenset[Knowledge]) -> None:
        self._facts, self._allowed = facts, allowed

    def _read(self, item: Knowledge) -> Any:
        if item not in self._allowed:
            raise UndeclaredKnowledgeError(f"the attack reads {item.value!r}, which its `needs` do not declare")
        return self._facts[item]

    def shown(self, item: Knowledge) -> Any:
        """Return what the view holds of an item, None if it was not declared; for the harness."""
        return self._facts.get(item)

    @property
    def architecture(self) -> Architecture:
        """The network's architecture."""
        architecture: Architecture = self._read(Knowledge.ARCHITECTURE)
        return architecture

    @property
    def weights(self) -> dict[str, Tensor]:
        """A copy of the released weights by parameter name, on the attack's device."""
        return {name: value.clone() for name, value in self._read(Knowledge.WEIGHTS).items()}

    @property
    def class_balance(self) -> tuple[float, ...]:
        """The share of each class in the training set; sums to 1."""
        balance: tuple[float, ...] = self._read(Knowledge.CLASS_BALANCE)
        return balance

    @property
    def n(self) -> int:
        """The number of training images."""
        n: int = self._read(Knowledge.N)
        return n

    @property
    def labels(self) -> Tensor:
        """The training labels, (n,) class indices."""
        labels: Tensor = self._read(Knowledge.LABELS)
        return labels

    @property
    def data_mean(self) -> Tensor:
        """The per-pixel training mean (C, H, W) that was subtracted from the inputs."""
        mean: Tensor = self._read(Knowledge.DATA_MEAN)
        return mean

    @property
    def loss(self) -> Loss:
        """The loss of one sample that the victim was trained with."""
        loss: Loss = self._read(Knowledge.LOSS)
        return loss

    @property
    def weight_decay(self) -> float:
        """The weight decay of the training problem, 0 where there is none."""
        decay: float = self._read(Knowledge.WEIGHT_DECAY)
        return decay

    @property
    def shadow_pool(self) -> tuple[Tensor, Tensor]:
        """Images (k, C, H, W) of the same distribution, none a member, less their own mean; and their classes (k,)."""
        images, labels = self._read(Knowledge.SHADOW_POOL)
        return images.clone(), labels.clone()

    @property
    def training_images(self) -> tuple[Tensor, Tensor]:
        """The training images themselves, (n, C, H, W) in the victim's input space, and their classes (n,)."""
        images, labels = self._read(Knowledge.TRAINING_IMAGES)
        return images.clone(), labels.clone()

    def logits(self, inputs: Tensor) -> Tensor:
        """Return what the victim answers to inputs (m, C, H, W) in its input space: Phi (m,), without a gradient."""
        answer: Callable[[Tensor], Tensor] = self._read(Knowledge.LOGITS)
        return answer(inputs)


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
        trace: rows of figures over time, stored beside the reconstruction; append with `record`.
        started: when it began, on the clock of `time.monotonic`; a resumed attack that much earlier as it had run.
        stopped: `expired` has told the attack to stop.
    """

    device: torch.device
    generator: torch.Generator
    progress: Callable[..., None]
    budget: Budget = UNLIMITED
    checkpoints: Checkpoints | None = None
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


@dataclass(frozen=True)
class Reconstruction:
    """What an attack returns.

    Attributes:
        candidates: (m, C, H, W) float32 in the victim's input space.
        labels: (m,) class indices that the attack assigns, or None.
        coefficients: (m,) Lagrange multipliers or whatever weighs a candidate, or None.
        confidence: (m,) how sure the attack is of each candidate, higher is surer, from nothing but what it was told;
            None if it cannot tell its hits from its misses.
        resolved: parameters that were left to the attack and what it chose, for a null control to be given the same.
        loss: the attack's own final objective, the lower the better, comparable between runs of that attack on one
            victim whatever its parameters: `tune` picks by it.
        grad_evals: evaluations of the objective's gradient.
        flags: what the reader of the row should know, such as what was done where a solve did not converge; one short
            line each, without ";".
    """

    candidates: Tensor
    labels: Tensor | None = None
    coefficients: Tensor | None = None
    confidence: Tensor | None = None
    resolved: dict[str, Any] = field(default_factory=dict)
    loss: float = float("nan")
    grad_evals: int = 0
    flags: tuple[str, ...] = ()


class AttackParams(BaseModel):
    """Base of every attack's parameters: frozen, unknown fields rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ControlParams(AttackParams):
    """Parameters of a null control.

    Attributes:
        candidates: how many.
        contrast: standard deviation of a candidate's pixels; natural images have about 0.25.
    """

    candidates: PositiveInt = 1000
    contrast: PositiveFloat = 0.25


ParamsT = TypeVar("ParamsT", bound=AttackParams)


class Attack(ABC, Generic[ParamsT]):
    """An attack: subclass it in a file of `attacks/`, and the command line knows it.

    It never prints, never writes files, and never sees the training data.

    Attributes:
        name: as on the command line; the file's name with dashes.
        summary: one line for `list`.
        paper: where it was published.
        needs: the knowledge that it declares, and gets, with its default parameters; see `knowledge`.
        Params: its parameters, with defaults that work.
        variants: named parameter sets, for `--variant`.
        search_spaces: by variant, "" for the defaults: the parameters that `tune` searches, and their ranges.
        control: a null control, which looks at no image and optimises nothing: the harness draws from it as many
            candidates as an attack returned, of the same contrast, and its Params are `ControlParams`.
        protocol: the scoring protocol of its rows, a name of `bench.scoring.PROTOCOLS`.
        helpers: packages and modules of this repository whose source belongs to the attack, such as
            `attacks.stationarity`: a change in them makes stored runs stale, as a change in the attack's own file does.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str] = ""
    needs: ClassVar[frozenset[Knowledge]]
    Params: ClassVar[type[AttackParams]]
    variants: ClassVar[dict[str, dict[str, Any]]] = {}
    search_spaces: ClassVar[dict[str, dict[str, Range]]] = {}
    control: ClassVar[bool] = False
    protocol: ClassVar[str] = "buzaglo2023"
    helpers: ClassVar[tuple[str, ...]] = ()

    def __init__(self, params: ParamsT) -> None:
        self.params = params

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """What it is told with its own parameters: `needs`, unless they ask for more or less."""
        return self.needs

    def supports(self, victim: VictimSpec) -> str | None:
        """Return None if the attack, with its parameters, can run on this victim, else the reason why not."""
        return None

    @abstractmethod
    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Attack the victim that `view` shows."""


def declined_unless_binary(victim: VictimSpec) -> str | None:
    """Return why an attack on fully connected binary classifiers declines a victim, or None if it is one."""
    if victim.architecture.kind != "mlp":
        return f"its first layer is a {victim.architecture.kind}: for fully connected networks"
    if victim.architecture.outputs > 1 or victim.loss != "cross-entropy":
        return f"{victim.architecture.outputs} outputs, {victim.loss}: for binary classifiers"
    return None
