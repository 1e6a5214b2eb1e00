"""The knowledge of an attack: its items, and the view of a victim that shows the declared ones. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    from victims.deletion.spec import Deletion, ShallowSpec
    from victims.equations.checkpoint import Checkpoint
    from victims.informed.spec import DenseSpec, Descent, GLMArchitecture, Newton, SmallCNNSpec
    from victims.recipes import Ordinary
    from victims.spec import Loss, NetworkSpec


class Knowledge(StrEnum):
    """An item of knowledge that an attack may be given about its victim."""

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
    KERNEL_WIDTH = "kernel width"
    KNOWN_POINTS = "known points"
    TRAINING = "training algorithm"
    INITIAL_WEIGHTS = "initial weights"
    EARLIER_WEIGHTS = "earlier weights"
    MOMENTUM = "optimiser's momentum"
    SNAPSHOTS = "weights on the way"
    CHECKPOINTS = "training checkpoints"
    GRADIENT_TRACE = "gradient trace"
    PRIOR = "prior"
    TRAINING_IMAGES = "oracle: training images"


class Threat(StrEnum):
    """The adversaries that an audit compares, the one with the least access first."""

    QUERIES = "query access"
    WEIGHTS = "the weights alone"
    SEED = "the weights and a guessable seed"
    MOMENTUM = "the weights and the optimiser's state"
    SNAPSHOTS = "several releases of the weights"
    CHECKPOINTS = "two checkpoints, each with the optimiser's state"
    START = "the weights and the start of the training"
    RELEASES = "the weights before and after a deletion"
    RECORDS = "the weights and all records but one"


def threat_of(knowledge: frozenset[Knowledge]) -> Threat | None:
    """Return the adversary who has this knowledge; None if it holds an oracle's, or nothing of the model."""
    if any(item.startswith(ORACLE) for item in knowledge):
        return None
    return next((threat for item, threat in OPENS.items() if item in knowledge), None)


OPENS = {
    Knowledge.KNOWN_POINTS: Threat.RECORDS,
    Knowledge.INITIAL_WEIGHTS: Threat.START,
    Knowledge.EARLIER_WEIGHTS: Threat.RELEASES,
    Knowledge.CHECKPOINTS: Threat.CHECKPOINTS,
    Knowledge.SNAPSHOTS: Threat.SNAPSHOTS,
    Knowledge.MOMENTUM: Threat.MOMENTUM,
    Knowledge.WEIGHTS: Threat.WEIGHTS,
    Knowledge.LOGITS: Threat.QUERIES,
}
"""The adversary who has an item of knowledge; of several items the first here decides."""
ORACLE = "oracle"
"""Prefix of the names of items that no attacker has. They serve experiments, and rows that use them are not ranked."""


class UndeclaredKnowledgeError(RuntimeError):
    """The attack read an item that it did not declare in `needs`."""


def _no_module() -> nn.Module:
    raise LookupError("the released models are many, and no torch module")


@dataclass(frozen=True)
class Architecture:
    """The architecture of a network, which is public.

    Attributes:
        spec: its specification.
        input_shape: (C, H, W) of one input.
        build: returns the network as a torch module on the attack's device, with weights of zero: load the view's into
            it. Not for the informed adversary, who is shown many models.
    """

    spec: NetworkSpec | DenseSpec | SmallCNNSpec | GLMArchitecture | ShallowSpec
    input_shape: tuple[int, int, int]
    build: Callable[[], nn.Module] = _no_module


class VictimView:
    """A victim as an attack sees it: the items that it declared, and an error for any other.

    A victim of the informed adversary is T models, each with a target of its own. There weights, labels and logits have
    a leading dimension T, n is the size of the fixed set, and images are in [0, 1] without a mean subtracted. A victim
    of the deletion setting is one model before the deletions, whose weights are the only earlier ones, and B models,
    each after one deletion; n is the number of training records before it, and the shadow pool holds public records.
    """

    def __init__(self, facts: dict[Knowledge, Any], allowed: frozenset[Knowledge]) -> None:
        self._facts, self._allowed = facts, allowed

    def _read(self, item: Knowledge) -> Any:
        """Return the value of an item; raises UndeclaredKnowledgeError."""
        if item not in self._allowed:
            raise UndeclaredKnowledgeError(f"the attack reads {item.value!r}, which its `needs` do not declare")
        return self._facts[item]

    def shown(self, item: Knowledge) -> Any:
        """Return the value of an item, declared or not, None if the view does not hold it; for the harness."""
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
        """Images (k, C, H, W) of the same distribution, none of them a member, and their classes (k,).

        Where a victim's inputs have the mean of its training images subtracted, the pool has its own mean subtracted.
        Where they have no mean subtracted, or a public mean and scale, the pool is in the victim's input space.
        """
        images, labels = self._read(Knowledge.SHADOW_POOL)
        return images.clone(), labels.clone()

    @property
    def known_points(self) -> tuple[Tensor, Tensor]:
        """The fixed set D_- that every released model was trained on: images (n, C, H, W), classes (n,)."""
        images, labels = self._read(Knowledge.KNOWN_POINTS)
        return images.clone(), labels.clone()

    @property
    def training(self) -> Descent | Newton | Deletion | Ordinary:
        """The algorithm A that was run on the fixed set and a target, how records were deleted, or a recipe."""
        training: Descent | Newton | Deletion | Ordinary = self._read(Knowledge.TRAINING)
        return training

    @property
    def initial_weights(self) -> dict[str, Tensor] | None:
        """The weights that training started from by parameter name; None where they were not kept.

        In the informed setting the one initial network of all released models; None where each had its own.
        """
        start: dict[str, Tensor] | None = self._read(Knowledge.INITIAL_WEIGHTS)
        return None if start is None else {name: value.clone() for name, value in start.items()}

    @property
    def earlier_weights(self) -> tuple[dict[str, Tensor], ...]:
        """The weights that were released before the last ones, in the order of release; empty if there are none."""
        earlier: tuple[dict[str, Tensor], ...] = self._read(Knowledge.EARLIER_WEIGHTS)
        return tuple({name: value.clone() for name, value in weights.items()} for weights in earlier)

    @property
    def momentum(self) -> dict[str, Tensor] | None:
        """The optimiser's running mean of the gradients by parameter name; None where it was not released.

        It is SGD's momentum or Adam's first moment, up to a factor.
        """
        mean: dict[str, Tensor] | None = self._read(Knowledge.MOMENTUM)
        return None if mean is None else {name: value.clone() for name, value in mean.items()}

    @property
    def snapshots(self) -> tuple[dict[str, Tensor], ...]:
        """The weights at two points of the training or more, in their order; empty if they are not told.

        They are those of the releases, as many steps apart, or of the checkpoints if no others were told.
        """
        releases: tuple[dict[str, Tensor], ...] = self._read(Knowledge.SNAPSHOTS)
        return tuple({name: value.clone() for name, value in weights.items()} for weights in releases)

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """What the training went on from after some epochs, in their order: weights and the optimiser's state.

        It is for `victims.equations.checkpoint.summed_gradients`; of a model of one's own that sum alone is in `first`.
        """
        states: tuple[Checkpoint, ...] = self._read(Knowledge.CHECKPOINTS)
        return tuple(state.copy() for state in states)

    @property
    def gradient_trace(self) -> dict[str, Tensor]:
        """The noisy sums of clipped gradients of every step of a private training, (T, steps, ...) by parameter name.

        With the initial weights they give the weights after each step; `victims.informed.private_descent` takes them.
        """
        return {name: value.clone() for name, value in self._read(Knowledge.GRADIENT_TRACE).items()}

    @property
    def prior(self) -> tuple[Tensor, Tensor]:
        """The N records of which each target is one, images (T, N, C, H, W) and classes (T, N); order tells nothing."""
        images, labels = self._read(Knowledge.PRIOR)
        return images.clone(), labels.clone()

    @property
    def training_images(self) -> tuple[Tensor, Tensor]:
        """The training images (n, C, H, W) in the victim's input space, and their classes (n,).

        In the informed setting these are the T targets; in the deletion setting the targets come last.
        """
        images, labels = self._read(Knowledge.TRAINING_IMAGES)
        return images.clone(), labels.clone()

    @property
    def kernel_width(self) -> float:
        """The inverse width gamma of a kernel machine's kernel, whose family the architecture tells."""
        width: float = self._read(Knowledge.KERNEL_WIDTH)
        return width

    def logits(self, inputs: Tensor) -> Tensor:
        """Return the victim's outputs Phi (m,) or (m, C) for inputs (m, C, H, W), without a gradient.

        In the informed setting they are (T, m, outputs), one released model after the other.
        """
        answer: Callable[[Tensor], Tensor] = self._read(Knowledge.LOGITS)
        return answer(inputs)
