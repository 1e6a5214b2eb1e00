"""A network as plain tensors, and its two recursions, in the letters that all equations here share.

    A_0 = X,   Z_l = A_{l-1} W_l' + b_l,   A_l = activation(Z_l),   Phi = Z_L     (forward)
    D_L = c,   D_l = (D_{l+1} W_{l+1}) * G_l                                      (back-propagated errors)

G_l (m, h_l) are the gates, the derivatives of the activation. The gradient of sum_ij c_ij Phi_j(theta; x_i) by W_l is
then D_l' A_{l-1}, and the one by b_l the column sums of D_l.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

FIRST = "layers.0.weight"
DOWN = f"{FIRST}.down"
"""The weights of a network's first layer, fully connected unless convolutions are layers too, and A of its low-rank
update, as a release names them."""
Activation = Callable[[Tensor], Tensor]
"""Maps the pre-activations Z_l (..., m, h_l) of a hidden layer to its activations A_l of the same shape."""


def layer_weights(named: Mapping[str, Tensor]) -> list[Tensor]:
    """Return the weights `layers.{l}.weight` among named parameters, the first layer first.

    Raises:
        KeyError: a layer between two others is missing.
    """
    depth = sum(name.startswith("layers.") and name.endswith(".weight") for name in named)
    return [named[f"layers.{layer}.weight"] for layer in range(depth)]


@dataclass(frozen=True)
class Network:
    """Weights W_l (h_l, h_{l-1}) and biases b_l (h_l,), None where a layer has none, for l = 1..L.

    Attributes:
        weights: one for each layer. Convolutions (stride 1, no padding) come first, with weights (C_out, C_in, k, k).
        biases: one for each layer.
        input_shape: (C, H, W), for a convolution; inputs are rows (m, d) all the same.
    """

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor | None, ...]
    input_shape: tuple[int, int, int] | None = None

    @classmethod
    def of(
        cls,
        named: Mapping[str, Tensor],
        input_shape: tuple[int, int, int] | None = None,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> Network:
        """Return the network that named parameters `layers.{l}.weight` and `layers.{l}.bias` describe.

        Args:
            named: the parameters; those that are not moved are taken as they are, with their gradients. Others, of a
                front or a tail, are left out.
            input_shape: (C, H, W); a fully connected network needs none.
            device: the device to move it to, None to leave it.
            dtype: the precision to convert it to, None to leave it.
        """
        weights = tuple(weight.to(device, dtype) for weight in layer_weights(named))
        biases = (named.get(f"layers.{layer}.bias") for layer in range(len(weights)))
        return cls(weights, tuple(None if bias is None else bias.to(device, dtype) for bias in biases), input_shape)

    @classmethod
    def of_matrices(cls, state: Mapping[str, Tensor]) -> Network:
        """Return the matrices of a `TailNetwork`'s state as layers, for what looks at each of them by itself.

        The first layer is the network's own. The others need not be in the order in which an input passes them.

        Args:
            state: its parameters and running statistics by name.
        """
        behind = [value for name, value in state.items() if name.startswith("tail.") and value.ndim == 2]
        first, bias = state["layers.0.weight"], state.get("layers.0.bias")
        return cls((first, *behind), (bias, *(None for _ in behind)))

    @property
    def depth(self) -> int:
        """The number of layers, L."""
        return len(self.weights)

    @property
    def outputs(self) -> int:
        """The number of outputs, C."""
        return len(self.weights[-1])

    @property
    def inputs(self) -> int:
        """The number of pixels times channels, d."""
        return math.prod(self.input_shape) if self.input_shape else self.weights[0].shape[1]

    @property
    def convolutions(self) -> int:
        """The number of convolutions, which are the first layers."""
        return sum(weight.ndim > 2 for weight in self.weights)

    def on_coordinates(self, basis: Tensor) -> Network:
        """Return the fully connected network on coordinates c of inputs x = basis c, for a basis (d, r)."""
        return replace(self, weights=(self.weights[0] @ basis, *self.weights[1:]))

    def after_convolutions(self) -> Network:
        """Return the fully connected network on the features."""
        return Network(self.weights[self.convolutions :], self.biases[self.convolutions :])

    def features(self, inputs: Tensor) -> Tensor:
        """Return the activations (..., m, f) of the last convolution for inputs (..., m, d)."""
        assert self.input_shape is not None
        maps = inputs.reshape(-1, *self.input_shape)
        for layer in range(self.convolutions):
            maps = F.conv2d(maps, self.weights[layer], self.biases[layer]).relu()
        return maps.reshape(*inputs.shape[:-1], -1)

    def layer_square_norms(self) -> list[Tensor]:
        """Return ||W_l||^2 + ||b_l||^2, a scalar tensor, for every layer."""
        pairs = zip(self.weights, self.biases, strict=True)
        return [w.square().sum() + (0 if b is None else b.square().sum()) for w, b in pairs]

    def forward(
        self,
        inputs: Tensor,
        activation: Activation,
        weights: Sequence[Tensor] | None = None,
        biases: Sequence[Tensor | None] | None = None,
    ) -> Tensor:
        """Return the outputs Phi (..., m, C) for inputs (..., m, d); a convolution takes (m, d) alone.

        Args:
            inputs: one a row, the pixels of an image one after another.
            activation: called once a hidden layer, the first layer first.
            weights: other weights of the same shapes, None for the network's own.
            biases: other biases of the same shapes, None for the network's own.
        """
        hidden = inputs
        shape: Sequence[int] | None = self.input_shape
        pairs = zip(weights or self.weights, biases or self.biases, strict=True)
        for layer, (weight, bias) in enumerate(pairs):
            if weight.ndim > 2:
                assert shape is not None
                maps = F.conv2d(hidden.view(-1, *shape), weight, bias)
                shape, hidden = maps.shape[1:], maps.flatten(1)
            else:
                hidden = F.linear(hidden, weight, bias)
            if layer < self.depth - 1:
                hidden = activation(hidden)
        return hidden

    def back_propagate(
        self, coefficients: Tensor, gated: Callable[[int, Tensor], Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return the errors D_1 to D_L, and D_{l+1} W_{l+1} for l = 1 to L - 1, of a fully connected network.

        Args:
            coefficients: D_L = c (..., m, C).
            gated: called once a hidden layer, the last layer first, with its index from 0 and D_{l+1} W_{l+1}
                (..., m, h_l); returns D_l of the same shape.
        """
        errors, ungated = [coefficients], list[Tensor]()
        for layer in range(self.depth - 2, -1, -1):
            ungated.insert(0, errors[0] @ self.weights[layer + 1])
            errors.insert(0, gated(layer, ungated[0]))
        return errors, ungated

    def passes(
        self, inputs: Tensor, coefficients: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Return the outputs Phi, A_0 to A_{L-1}, and D_1 to D_L, with the ReLU's own gates, 0 or 1.

        Args:
            inputs: A_0 (..., m, d) of a fully connected network.
            coefficients: maps the outputs (..., m, C) to D_L = c of the same shape.
        """
        activations = [inputs]

        def relu(before: Tensor) -> Tensor:
            activations.append(before.relu())
            return activations[-1]

        outputs = self.forward(inputs, relu)
        errors, _ = self.back_propagate(
            coefficients(outputs), lambda layer, ungated: ungated * (activations[layer + 1] > 0)
        )
        return outputs, activations, errors
