"""A trained victim that released two models: before a deletion, and after it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from victims.cache import StoredCard
from victims.deletion.data import DeletionSplit
from victims.deletion.objective import Parameters, features, outputs
from victims.deletion.spec import DeletionSpec


class DeletionCard(StoredCard):
    """The card of a model and of those after a deletion, stored beside their parameters.

    Accuracies lie in [0, 1]; they and the losses are of the model before the deletion. A regression has no accuracy,
    and its loss is the mean squared error.

    Attributes:
        version: of the recipe.
        optimality: the largest `Objective.optimality` of the model before the deletion and of the refitted models, as
            they were fitted, before a defence changes what is released.
        moved: median distance of the models after a deletion from the one before, relative to its norm.
        accuracy_after: test accuracy after a deletion, the mean over the models; None for a regression.
    """

    name: str
    spec: DeletionSpec
    version: int = 1
    train_loss: float | None
    train_accuracy: float | None
    test_loss: float | None
    test_accuracy: float | None
    accuracy_after: float | None
    optimality: float
    moved: float


@dataclass(frozen=True)
class DeletionVictim:
    """The released models and the records that made them.

    Attributes:
        card: the measurements of them; `card.spec` is the victim's description.
        before: the parameters before the deletion, by name, float64.
        weights: those after each of the B deletions, (B, ...) by name, float64.
        split: records that stayed, targets, public and test records.
    """

    card: DeletionCard
    before: Parameters
    weights: Parameters
    split: DeletionSplit

    @property
    def spec(self) -> DeletionSpec:
        """The victim's description."""
        return self.card.spec

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of a record."""
        return self.split.targets.shape

    @property
    def flags(self) -> list[str]:
        """Reasons to read its rows with care."""
        return []


def predictions(spec: DeletionSpec, parameters: Parameters, images: Tensor) -> Tensor:
    """Return the outputs (m, C) of one model for images (m, C, H, W)."""
    return outputs(spec.architecture, parameters, features(spec.architecture, images))
