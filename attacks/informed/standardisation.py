"""The features of a released model that a reconstructor sees, and their standardisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from victims.errors import UserError
from victims.informed.networks import Parameters


def parameter_features(parameters: Parameters, layers: Sequence[int]) -> Tensor:
    """Return the parameters of k models as features (k, p).

    Args:
        parameters: the models' parameters by name, each (k, ...).
        layers: the layers, from 1, whose parameters count; empty for all.

    Raises:
        UserError: the network has no such layer.
    """
    depth = len(parameters) // 2
    if absent := [layer for layer in layers if not 1 <= layer <= depth]:
        raise UserError(f"the network has layers 1 to {depth}; it has no layer {absent[0]}")
    chosen = [f"layers.{layer - 1}.{kind}" for layer in layers or range(1, depth + 1) for kind in ("weight", "bias")]
    return torch.cat([parameters[name].flatten(1) for name in chosen], 1)


@dataclass(frozen=True)
class Standardisation:
    """Maps every feature to mean 0 and standard deviation 1 over the shadows that are learned from.

    One record moves a weight by a thousandth of its size; standardisation makes that visible. A feature that is the
    same for all shadows, such as the weight of a pixel that is always black, keeps its scale.

    Attributes:
        mean: (p,).
        scale: (p,), positive.
    """

    mean: Tensor
    scale: Tensor

    @classmethod
    def of(cls, features: Tensor) -> Standardisation:
        """Return the standardisation of features (k, p), k > 1."""
        deviation, mean = torch.std_mean(features, 0)
        return cls(mean, deviation.where(features.amax(0) > features.amin(0), 1.0))

    def __call__(self, features: Tensor) -> Tensor:
        """Return standardised features (k, p)."""
        return (features - self.mean) / self.scale
