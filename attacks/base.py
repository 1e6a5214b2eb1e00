"""The contract of an attack: what it may know, what it is given, what it returns. Imports no torch."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from attacks.context import AttackContext
from attacks.search_space import Range

if TYPE_CHECKING:
    from torch import Tensor, nn

    from victims.informed.spec import DenseSpec, Descent, GLMArchitecture, Newton, SmallCNNSpec
    from victims.spec import Loss, NetworkSpec, VictimSpec


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
    KNOWN_POINTS = "known points"
    TRAINING = "training algorithm"
    INITIAL_WEIGHTS = "initial weights"
    TRAINING_IMAGES = "oracle: training images"


ORACLE = "oracle"
"""What the name of an item that no attacker has begins with: it serves experiments, and its rows are not ranked."""


class UndeclaredKnowledgeError(RuntimeError):
    """An attack read an item that it did not declare in `needs`."""


class DivergedError(ArithmeticError):
    """The attack ended in numbers that are not finite; its row is `diverged`."""


def _no_module() -> nn.Module:
    raise LookupError("the released models are many, and no torch module")


@dataclass(frozen=True)
class Architecture:
    """What is public about a network.

    Attributes:
        spec: its specification.
        input_shape: (C, H, W) of one input.
        build: returns it as a torch module on the attack's device, its weights being zeros: load the view's into it;
            not for the informed adversary, who is shown many models.
    """

    spec: NetworkSpec | DenseSpec | SmallCNNSpec | GLMArchitecture
    input_shape: tuple[int, int, int]
    build: Callable[[], nn.Module] = _no_module


class VictimView:
    """A victim as an attack sees it: every item that it declared, and an error on anything else.

    A victim of the informed adversary is T models, each with a target of its own: weights, labels and logits have a
    leading dimension T there, n is the size of the fixed set, and images are in [0, 1], no mean subtracted.
    """

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
        """The training labels, (n,) class indices; of the T targets in the informed setting."""
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
        """Images (k, C, H, W) of the same distribution, none a member, and their classes (k,).

        They are less their own mean, in the informed setting as they are.
        """
        images, labels = self._read(Knowledge.SHADOW_POOL)
        return images.clone(), labels.clone()

    @property
    def known_points(self) -> tuple[Tensor, Tensor]:
        """The fixed set D_- that every released model was trained on: images (n, C, H, W), classes (n,)."""
        images, labels = self._read(Knowledge.KNOWN_POINTS)
        return images.clone(), labels.clone()

    @property
    def training(self) -> Descent | Newton:
        """The algorithm A that was run on the fixed set and a target; `victims.informed.training` runs it again."""
        training: Descent | Newton = self._read(Knowledge.TRAINING)
        return training

    @property
    def initial_weights(self) -> dict[str, Tensor] | None:
        """The one initial network of all released models by parameter name; None where each had its own."""
        start: dict[str, Tensor] | None = self._read(Knowledge.INITIAL_WEIGHTS)
        return None if start is None else {name: value.clone() for name, value in start.items()}

    @property
    def training_images(self) -> tuple[Tensor, Tensor]:
        """The training images themselves, (n, C, H, W) in the victim's input space, and their classes (n,).

        In the informed setting the T targets.
        """
        images, labels = self._read(Knowledge.TRAINING_IMAGES)
        return images.clone(), labels.clone()

    def logits(self, inputs: Tensor) -> Tensor:
        """Return what the victim answers to inputs (m, C, H, W) in its input space: Phi (m,), without a gradient.

        In the informed setting: (T, m, outputs), one released model after the other.
        """
        answer: Callable[[Tensor], Tensor] = self._read(Knowledge.LOGITS)
        return answer(inputs)


@dataclass(frozen=True)
class Reconstruction:
    """What an attack returns.

    Attributes:
        candidates: (m, C, H, W) float32 in the victim's input space; in the informed setting candidate i is for
            target i, NaN where the attack has none.
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


_ENTRY = re.compile(r"^        (?=\w+: )", re.MULTILINE)
"""Where the description of an attribute begins."""


class AttackParams(BaseModel):
    """Base of every attack's parameters: frozen, unknown fields rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __pydantic_init_subclass__(cls, **keywords: Any) -> None:
        """Let `show` tell all parameters: the docstring goes on with those of the parent that it does not describe."""
        super().__pydantic_init_subclass__(**keywords)
        own = (cls.__doc__ or "").rstrip()
        _, _, inherited = (cls.__mro__[1].__doc__ or "").partition("Attributes:\n")
        more = [entry for entry in _ENTRY.split(inherited)[1:] if f"        {entry.partition(':')[0]}: " not in own]
        head = "" if "Attributes:\n" in own or not more else "\n\n    Attributes:"
        cls.__doc__ = f"{own}{head}\n{''.join(f'        {entry}' for entry in more)}"


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
        setting: the victims that it is for: "dataset", of which all records are to be reconstructed, or "informed",
            of which one is, all others being known (Balle et al. 2022).
        protocol: the scoring protocol of its rows, a name of `bench.scoring.PROTOCOLS`; "balle2022" if informed.
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
    setting: ClassVar[Literal["dataset", "informed"]] = "dataset"
    protocol: ClassVar[str] = "buzaglo2023"
    helpers: ClassVar[tuple[str, ...]] = ()

    def __init__(self, params: ParamsT) -> None:
        self.params = params

    @property
    def knowledge(self) -> frozenset[Knowledge]:
        """What it is told with its own parameters: `needs`, unless they ask for more or less."""
        return self.needs

    def supports(self, victim: Any) -> str | None:
        """Return None if the attack, with its parameters, can run on this victim, of its setting, else the reason."""
        return None

    @abstractmethod
    def reconstruct(self, view: VictimView, ctx: AttackContext) -> Reconstruction:
        """Attack the victim that `view` shows."""


def declined_unless_layered(victim: VictimSpec) -> str | None:
    """Return why an attack on a ReLU network's layers declines a victim, or None if its layers are known."""
    if victim.architecture.kind == "module":
        return f"{victim.architecture.label} is no plain sequence of linear layers and ReLUs"
    return None


def declined_unless_binary(victim: VictimSpec) -> str | None:
    """Return why an attack on fully connected binary classifiers declines a victim, or None if it is one."""
    if victim.architecture.kind != "mlp":
        return f"its first layer is a {victim.architecture.kind}: for fully connected networks"
    if victim.architecture.outputs > 1 or victim.loss != "cross-entropy":
        return f"{victim.architecture.outputs} outputs, {victim.loss}: for binary classifiers"
    return None
