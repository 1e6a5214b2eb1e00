"""The card that says what a trained victim is."""

from __future__ import annotations

import copy
from datetime import UTC, datetime

import torch
from pydantic import BaseModel
from torch import Tensor

from victims.architectures import MLP
from victims.datasets import Split
from victims.hardware import cpu_name, gpu_name
from victims.spec import Regularised, VictimSpec
from victims.stationarity import stationarity_residuals
from victims.training.regularised import relative_gradient
from victims.training.state import logistic_loss


class VictimCard(BaseModel):
    """What is known of a trained victim; stored beside its weights.

    Losses are mean logistic losses, accuracies lie in [0, 1], margins are y Phi(x) on the training set (the smallest,
    the quartiles and the largest), stationarity residuals are relative, one a layer. `relative_gradient` is how far a
    victim with weight decay is from a minimum: ||gradient|| / (weight_decay ||theta||).
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


def signs(labels: Tensor) -> Tensor:
    """Return labels (n,) in {-1, +1} for class indices in {0, 1}."""
    return 2.0 * labels - 1.0


def describe(
    spec: VictimSpec,
    model: MLP,
    split: Split,
    *,
    weights_sha256: str,
    dataset_sha256: str,
    device: torch.device,
    train_s: float,
) -> VictimCard:
    """Measure a trained victim and return its card."""
    inputs, labels = torch.from_numpy(split.inputs), signs(torch.from_numpy(split.labels))
    with torch.no_grad():
        train = labels * model(inputs)
        test = signs(torch.from_numpy(split.test_labels)) * model(torch.from_numpy(split.test_inputs))
    gradient = None
    if isinstance(spec.training, Regularised):
        exact = copy.deepcopy(model).double()
        gradient = relative_gradient(exact, inputs.double(), labels.double(), spec.weight_decay)
    quantiles = torch.quantile(train, torch.tensor([0, 0.25, 0.5, 0.75, 1.0]))
    return VictimCard(
        name=spec.name,
        spec=spec,
        weights_sha256=weights_sha256,
        dataset_sha256=dataset_sha256,
        train_loss=float(logistic_loss(train)),
        train_accuracy=float((train > 0).float().mean()),
        test_loss=float(logistic_loss(test)),
        test_accuracy=float((test > 0).float().mean()),
        margins=quantiles.tolist(),
        stationarity_residual=stationarity_residuals(model, inputs, labels),
        relative_gradient=gradient,
        train_s=train_s,
        device=device.type,
        hardware=gpu_name(device) or cpu_name(),
        torch=torch.__version__,
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
    )
