"""The card that says what a trained victim is."""

from __future__ import annotations

import copy
from datetime import UTC, datetime

import torch
from pydantic import BaseModel

from victims.architectures import MLP, ReLUNetwork
from victims.datasets import Split
from victims.hardware import cpu_name, gpu_name
from victims.losses import margins, sample_losses, signs
from victims.spec import Regularised, VictimSpec
from victims.stationarity import stationarity_residuals
from victims.training.regularised import relative_gradient


class VictimCard(BaseModel):
    """What is known of a trained victim; stored beside its weights.

    Losses are means of the victim's own loss, accuracies lie in [0, 1], margins are y Phi(x), or Phi_y - max Phi_j, on
    the training set (the smallest, the quartiles and the largest), stationarity residuals are relative, one a layer.
    `relative_gradient` is how far a regularised victim is from a minimum: ||gradient|| / (weight_decay ||theta||).
    """

    name: str
    spec: VictimSpec
    weights_sha256: str
    dataset_sha256: str
    train_loss: float
    train_accuracy: float
    test_loss: float
    test_accuracy: float
    margins: list[float]
    stationarity_residual: list[float]
    relative_gradient: float | None = None
    train_s: float
    device: str
    hardware: str
    torch: str
    created_utc: str


def describe(
    spec: VictimSpec,
    model: ReLUNetwork,
    split: Split,
    *,
    weights_sha256: str,
    dataset_sha256: str,
    device: torch.device,
    train_s: float,
) -> VictimCard:
    """Measure a trained victim and return its card."""
    inputs, labels = torch.from_numpy(split.inputs), torch.from_numpy(split.labels)
    test_labels = torch.from_numpy(split.test_labels)
    with torch.no_grad():
        train, test = model(inputs), model(torch.from_numpy(split.test_inputs))
    train_margins, test_margins = margins(train, labels), margins(test, test_labels)
    quantiles = torch.quantile(train_margins, torch.tensor([0, 0.25, 0.5, 0.75, 1.0]))
    gradient = None
    if isinstance(spec.training, Regularised) and isinstance(model, MLP):
        exact = copy.deepcopy(model).double()
        gradient = relative_gradient(exact, inputs.double(), signs(labels).double(), spec.weight_decay)
    return VictimCard(
        name=spec.name,
        spec=spec,
        weights_sha256=weights_sha256,
        dataset_sha256=dataset_sha256,
        train_loss=float(sample_losses(spec.loss, train, labels).mean()),
        train_accuracy=float((train_margins > 0).float().mean()),
        test_loss=float(sample_losses(spec.loss, test, test_labels).mean()),
        test_accuracy=float((test_margins > 0).float().mean()),
        margins=quantiles.tolist(),
        stationarity_residual=stationarity_residuals(spec, model, inputs, labels),
        relative_gradient=gradient,
        train_s=train_s,
        device=device.type,
        hardware=gpu_name(device) or cpu_name(),
        torch=torch.__version__,
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
    )
