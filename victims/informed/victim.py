"""A trained victim of the informed adversary: T released models, and the records that made them."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field
from torch import Tensor

from victims.base import Victim
from victims.cache import StoredCard
from victims.deletion.victim import DeletionVictim
from victims.informed.data import InformedSplit
from victims.informed.networks import Parameters
from victims.informed.spec import GLMSpec, InformedSpec


class InformedCard(StoredCard):
    """The card of T released models, stored beside their parameters.

    Accuracies lie in [0, 1], and like losses are means over the models; a regression has no accuracy, and its loss is
    the mean squared error. Test figures are None where no record is left to test on.

    Attributes:
        version: of the recipe.
        optimality: the largest `GLM.optimality` of generalised linear models, as they were fitted, before a defence
            changes what is released; None for networks.
        gaussian_privacy: mu of the Gaussian differential privacy of the training; None without, or if it is sampled.
        trace_sha256: hex SHA-256 of the file of the trace, empty where none is released.
    """

    name: str
    spec: InformedSpec | GLMSpec = Field(discriminator="kind")
    version: int = 1
    train_loss: float | None
    train_accuracy: float | None
    test_loss: float | None
    test_accuracy: float | None
    optimality: float | None = None
    gaussian_privacy: float | None = None
    trace_sha256: str = ""


@dataclass(frozen=True)
class InformedVictim:
    """T released models and the records that made them.

    Attributes:
        card: the measurements of them; `card.spec` is the victim's description.
        start: the initial network of all models, None where each had its own, and for a generalised linear model.
        weights: the released parameters (T, ...) by name, on the CPU: `layers.{l}.weight` and `layers.{l}.bias`,
            float32; of a generalised linear model `coef` (T, C, d) and `intercept` (T, C), float64.
        split: fixed set, targets, shadow pool and test images.
        trace: the released trace of private trainings, (T, epochs, ...) by name as of `Trained`; None if there is none.
    """

    card: InformedCard
    start: Parameters | None
    weights: Parameters
    split: InformedSplit
    trace: Parameters | None = None

    @property
    def spec(self) -> InformedSpec | GLMSpec:
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


AnyVictim = Victim | InformedVictim | DeletionVictim
"""A trained victim of any setting."""


def logits(spec: InformedSpec | GLMSpec, weights: Parameters, images: Tensor) -> Tensor:
    """Return the logits or linear predictors (T, m, outputs) of T released models for images (m, C, H, W)."""
    from victims.informed.glm import predictors
    from victims.informed.networks import forward_many

    if isinstance(spec, InformedSpec):
        return forward_many(spec.architecture, weights, images)
    return predictors(weights["coef"], weights["intercept"], images.flatten(1))
