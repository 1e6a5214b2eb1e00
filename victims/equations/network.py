"""A network as plain tensors, the form in which the stationarity equations are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from victims.equations.gates import smooth_gate_relu


@dataclass(frozen=True)
class Network:
    """Weights W_l (h_l, h_{l-1}) and biases b_l (h_l,), None where a layer has none, for l = 1..L.

    Attributes:
        weights: W_1 is (C_out, C_in, k, k) where the first layer is a convolution (stride 1, no padding).
        biases: one a layer.
        input_shape: (C, H, W), for a convolution; inputs are rows (m, d) all the same.
    """

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor | None, ...]
    input_shape: tuple[int, int, int] | None = None

    @classmethod
    def of(
        cls, named: dict[str, Tensor], input_shape: tuple[int, int, int], device: torch.device, dtype: torch.dtype
    ) -> Network:
        """Return the network that named parameters `layers.{l}.weight` and `layers.{l}.bias` describe."""
        depth = sum(name.endswith(".weight") for name in named)
        moved = {name: value.to(device, dtype) for name, value in named.items()}
        return cls(
            tuple(moved[f"layers.{layer}.weight"] for layer in range(depth)),
            tuple(moved.get(f"layers.{layer}.bias") for layer in range(depth)),
            input_shape,
        )

    @property
    def depth(self) -> int:
        """The number of layers, L."""
        return len(self.weights)

    @property
    def inputs(self) -> int:
        """The number of pixels times channels, d."""
        return math.prod(self.input_shape) if self.input_shape else self.weights[0].shape[1]

    @property
    def convolutional(self) -> bool:
        """Whether the first layer is a convolution."""
        return self.weights[0].ndim > 2

    def on_coordinates(self, basis: Tensor) -> Network:
        """Return the fully connected network on coordinates c of inputs x = basis c, for a basis (d, r)."""
        return replace(self, weights=(self.weights[0] @ basis, *self.weights[1:]))

    def after_first(self) -> Network:
        """Return the fully connected network on the activations of layer 1."""
        return Network(self.weights[1:], self.biases[1:])

    def features(self, inputs: Tensor) -> Tensor:
        """Return the activations (..., m, f) of layer 1, a convolution, for inputs (..., m, d)."""
        assert self.input_shape is not None
        maps = F.conv2d(inputs.reshape(-1, *self.input_shape), self.weights[0], self.biases[0]).relu()
        return maps.reshape(*inputs.shape[:-1], -1)

    def outputs(self, inputs: Tensor) -> Tensor:
        """Return Phi (m,) of inputs (m, d), with the true ReLU, of a fully connected network with one output."""
        hidden = inputs
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = F.linear(hidden if layer == 0 else hidden.relu(), weight, bias)
        return hidden[:, 0]

    def layer_square_norms(self) -> list[Tensor]:
        """Return ||W_l||^2 + ||b_l||^2 for every layer."""
        pairs = zip(self.weights, self.biases, strict=True)
        return [w.square().sum() + (0 if b is None else b.square().sum()) for w, b in pairs]

    def forward(
        self, inputs: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor | None], alpha: float
    ) -> Tensor:
        """Return the outputs (m, C) for inputs (m, d), with smooth gates, at other weights of the same shapes."""
        hidden = inputs
        for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            if weight.ndim > 2:
                assert self.input_shape is not None
                hidden = F.conv2d(hidden.view(-1, *self.input_shape), weight, bias).flatten(1)
            else:
                hidden = F.linear(hidden, weight, bias)
            if layer < self.depth - 1:
                hidden = smooth_gate_relu(hidden, alpha)
        return hidden
