"""The card of a trained victim: its losses, accuracies, margins and stationarity residuals."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from victims.cache import Origin, StoredCard
from victims.datasets import Split
from victims.equations.architectures import MLP
from victims.equations.losses import margins, sample_losses, signs
from victims.equations.optimality import stationarity_residuals
from victims.errors import UserError
from victims.spec import Regularised, VictimSpec
from victims.training.regularised import relative_gradient

VALUES_PER_BATCH = 10_000 * 3 * 32 * 32
"""Pixels that go through the network together: the test sets of CIFAR-10 and MNIST are one batch each."""


class VictimCard(StoredCard):
    """The card of a trained victim, stored beside its weights.

    Losses are means of the victim's own loss, accuracies lie in [0, 1]; those of a set without images are NaN.
    Margins are y Phi(x), or Phi_y - max Phi_j, on the training set: smallest, quartiles and largest.
    `stationarity_residual` has a relative residual for each layer (`victims.equations.optimality`), NaN at many images.
    Both are empty without training images.
    Where the start was kept, `movement` is ||theta - theta(0)|| / ||theta(0)||, ||theta|| for a start of zeros, and
    `start_decay` and `directions` are c and the rank of W - c W(0) for the first fully connected layer that moved, see
    `victims.ordinary.difference`.
    `relative_gradient` is ||gradient|| / (weight_decay ||theta||), for victims trained to a minimum alone.
    `version` is that of the recipe; `training_sha` is empty for released weights.
    """

    name: str
    spec: VictimSpec
    version: int = 1
    train_loss: float
    train_accuracy: float
    test_loss: float
    test_accuracy: float
    margins: list[float]
    stationarity_residual: list[float]
    relative_gradient: float | None = None
    start_sha256: str | None = None
    snapshots_sha256: str | None = None
    momentum_sha256: str | None = None
    checkpoints_sha256: str | None = None
    movement: float | None = None
    start_decay: float | None = None
    directions: int | None = None


def describe(spec: VictimSpec, model: nn.Module, split: Split, made: Origin) -> VictimCard:
    """Return the card of a trained victim, measured on its own data."""
    inputs, labels = torch.from_numpy(split.inputs), torch.from_numpy(split.labels)
    train_loss, train_accuracy, quantiles, residuals = math.nan, math.nan, list[float](), list[float]()
    if len(labels):
        train_loss, train_margins = _measured(spec, model, inputs, labels)
        train_accuracy = float((train_margins > 0).float().mean())
        quantiles = torch.quantile(train_margins, train_margins.new_tensor([0, 0.25, 0.5, 0.75, 1.0])).tolist()
        residuals = stationarity_residuals(spec, model, inputs, labels)
    test_loss, test_accuracy = math.nan, math.nan
    if len(split.test_labels):
        test = torch.from_numpy(split.test_inputs), torch.from_numpy(split.test_labels)
        test_loss, test_margins = _measured(spec, model, *test)
        test_accuracy = float((test_margins > 0).float().mean())
    gradient = None
    if isinstance(spec.training, Regularised) and isinstance(model, MLP):
        exact = copy.deepcopy(model).double()
        gradient = relative_gradient(exact, inputs.double(), signs(labels).double(), spec.weight_decay)
    return VictimCard(
        name=spec.name,
        spec=spec,
        version=spec.training.version,
        train_loss=train_loss,
        train_accuracy=train_accuracy,
        test_loss=test_loss,
        test_accuracy=test_accuracy,
        margins=quantiles,
        stationarity_residual=residuals,
        relative_gradient=gradient,
        **made,
    )


@torch.no_grad()
def _measured(spec: VictimSpec, model: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[float, Tensor]:
    """Return the mean loss and the margins (n,) on inputs (n, C, H, W) with class indices (n,)."""
    together = max(1, VALUES_PER_BATCH // inputs[0].numel())
    outputs = torch.cat([model(batch) for batch in inputs.split(together)])
    return float(sample_losses(spec.loss, outputs, labels).mean()), margins(outputs, labels)


def require_finite(spec: VictimSpec, model: nn.Module) -> None:
    """Check that the weights of a trained network are finite.

    Raises:
        UserError: its weights are not finite.
    """
    if not all(bool(value.isfinite().all()) for value in model.state_dict().values()):
        hint = "lower its learning rate, or look at its images"
        raise UserError(f"victim {spec.name}: its training ended in weights that are not finite; {hint}")
