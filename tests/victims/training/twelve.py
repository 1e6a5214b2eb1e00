"""What tests of training have in common: twelve random samples of two classes, and a small victim of them."""

from __future__ import annotations

import torch

from victims.spec import (
    DecayedDescent,
    GradientDescent,
    GramGaussNewton,
    Loss,
    MLPSpec,
    NormalizedDescent,
    Regularised,
    VictimSpec,
)

CPU = torch.device("cpu")


def spec(
    training: GradientDescent | NormalizedDescent | DecayedDescent | GramGaussNewton | Regularised,
    loss: Loss = "cross-entropy",
    **architecture: object,
) -> VictimSpec:
    options = {"hidden": (24, 16), "first_layer_scale": 1e-2} | architecture
    network = MLPSpec(**options)  # type: ignore[arg-type]
    return VictimSpec(name="test-mlp-12", dataset="test", n=12, architecture=network, loss=loss, training=training)


def problem() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(12, 1, 6, 5, generator=generator), torch.tensor([1, 0]).repeat(6)
