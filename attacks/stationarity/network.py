"""A multilayer perceptron as plain tensors, the form in which the stationarity equations are written."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Network:
    """Weights W_l (h_l, h_{l-1}) and biases b_l (h_l,), None where a layer has none, for l = 1..L."""

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor | None, ...]

    @classmethod
    def of(cls, named: dict[str, Tensor], device: torch.device, dtype: torch.dtype) -> Network:
        """Return the network that named parameters `layers.{l}.weight` and `layers.{l}.bias` describe."""
        depth = sum(name.endswith(".weight") for name in named)
        moved = {name: value.to(device, dtype) for name, value in named.items()}
        return cls(
            tuple(moved[f"layers.{layer}.weight"] for layer in range(depth)),
            tuple(moved.get(f"layers.{layer}.bias") for layer in range(depth)),
        )

    @property
    def depth(self) -> int:
        """The number of layers, L."""
        return len(self.weights)

    def on_coordinates(self, basis: Tensor) -> Network:
        """Return the network on coordinates c of inputs x = basis c, for a basis (d, r)."""
        return replace(self, weights=(self.weights[0] @ basis, *self.weights[1:]))

    def outputs(self, inputs: Tensor) -> Tensor:
        """Return Phi (m,) of inputs (m, d)."""
        hidden = inputs
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = torch.nn.functional.linear(hidden if layer == 0 else hidden.relu(), weight, bias)
        return hidden[:, 0]

    def layer_square_norms(self) -> list[Tensor]:
        """Return ||W_l||^2 + ||b_l||^2 for every layer."""
        pairs = zip(self.weights, self.biases, strict=True)
        return [w.square().sum() + (0 if b is None else b.square().sum()) for w, b in pairs]
