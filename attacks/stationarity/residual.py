"""The stationarity residual of a fully connected network and its gradient, written down.

For candidates x_i with coefficients c_ij on the outputs, the gradient of sum_ij c_ij Phi_j(theta; x_i) with respect to
W_l is D_l' A_{l-1} (and its column sums 1'D_l for b_l), where

    A_0 = X,   Z_l = A_{l-1} W_l' + b_l,   A_l = relu(Z_l),   G_l = sigmoid(alpha Z_l)       (forward)
    D_L = c,   D_l = (D_{l+1} W_{l+1}) * G_l                                                  (back-propagated signal)

and the residual of eq. (3) of Haim et al. 2022 is R_l = W_l - D_l' A_{l-1}. Its own gradient needs one more pass up
through the D recursion and one down through the forward pass, with the smooth gate as the derivative of the ReLU
throughout, as in the authors' code. That is five matrix products a layer, and no graph is kept. The coefficients may
depend on the outputs Z_L and on variables of their own: that map is small, (m, C) numbers, and autograd differentiates
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.stationarity.network import Network


@dataclass(frozen=True)
class Weighting:
    """How much each entry of the residual counts.

    Attributes:
        layers: (L,) weight of each layer's squared residual, relative to that layer's squared norm; layers of weight
            0 are not computed.
        rows: (h_1,) weight of each neuron of layer 1.
        columns: (r,) weight of each coordinate of layer 1.
        bias: weight of the residual of b_1 against the columns.
    """

    layers: tuple[float, ...]
    rows: Tensor
    columns: Tensor
    bias: float

    @classmethod
    def uniform(cls, network: Network, layers: tuple[float, ...]) -> Weighting:
        """Return the weighting that counts all entries of a layer alike."""
        first = network.weights[0]
        return cls(layers, torch.ones(len(first)).to(first), torch.ones(first.shape[1]).to(first), 1.0)


class StationarityResidual:
    """The weighted squared residual sum_l w_l ||R_l||^2 / ||theta_l||^2 of one network, and its gradient."""

    def __init__(self, network: Network, weighting: Weighting) -> None:
        self.network, self.weighting = network, weighting
        scales = []
        for layer, weight in enumerate(weighting.layers):
            left, right = self._entry_weights(layer)
            bias = network.biases[layer]
            norm = (network.weights[layer] * left * right).square().sum()
            if bias is not None:
                norm = norm + (bias * left[:, 0]).square().sum() * self._bias_weight(layer) ** 2
            scales.append(weight / norm)
        self.scales = scales

    def _entry_weights(self, layer: int) -> tuple[Tensor, Tensor]:
        if layer == 0:
            return self.weighting.rows[:, None], self.weighting.columns[None]
        one = torch.ones((1, 1)).to(self.network.weights[0])
        return one, one

    def _bias_weight(self, layer: int) -> float:
        return self.weighting.bias if layer == 0 else 1.0

    @torch.no_grad()
    def __call__(self, inputs: Tensor, coefficients: Callable[[Tensor], Tensor], alpha: float) -> tuple[Tensor, Tensor]:
        """Return the residual (a scalar tensor) and its gradient with respect to the inputs.

        The gradients with respect to the variables of `coefficients` are added to their `.grad`, as by `backward`.

        Args:
            inputs: (m, r) candidates, on the coordinates that the network takes.
            coefficients: maps the outputs (m, C) to the coefficients c (m, C), differentiably.
            alpha: sharpness of the gates.
        """
        weights, biases, depth = self.network.weights, self.network.biases, self.network.depth
        activations, gates = [inputs], []
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            pre = activations[-1] @ weight.T if bias is None else torch.addmm(bias, activations[-1], weight.T)
            gates.append(torch.sigmoid(alpha * pre))
            activations.append(pre.relu_())
        outputs = torch.nn.functional.linear(activations[-1], weights[-1], biases[-1]).requires_grad_()
        with torch.enable_grad():
            chosen = coefficients(outputs)
        signals = [chosen.detach()]
        ungated: list[Tensor] = []
        for layer in range(depth - 2, -1, -1):
            ungated.insert(0, signals[0] @ weights[layer + 1])
            signals.insert(0, ungated[0] * gates[layer])

        total = inputs.new_zeros(())
        signal_gradient: Tensor | None = None
        activation_gradients: list[Tensor | None] = [None] * depth
        gate_gradients: list[Tensor] = []
        for layer in range(depth):
            direct: Tensor | None = None
            if self.weighting.layers[layer]:
                value, direct, activation_gradients[layer] = self._layer(layer, signals[layer], activations[layer])
                total = total + value
            if layer > 0:
                assert signal_gradient is not None or not any(self.weighting.layers[:layer])
                if signal_gradient is not None:
                    gated = signal_gradient * gates[layer - 1]
                    gate_gradients.append(signal_gradient.mul_(ungated[layer - 1]))
                    through = gated @ weights[layer].T
                    direct = through if direct is None else direct.add_(through)
                else:
                    gate_gradients.append(torch.zeros_like(ungated[layer - 1]))
            signal_gradient = direct
        assert signal_gradient is not None, "at least one layer must have a weight"
        if chosen.requires_grad:
            torch.autograd.backward(chosen, signal_gradient)
        carried = activation_gradients[depth - 1]
        if outputs.grad is not None:
            through = outputs.grad @ weights[-1]
            carried = through if carried is None else carried.add_(through)
        for layer in range(depth - 2, -1, -1):
            gate = gates[layer]
            slope = gate_gradients[layer].mul_(gate).mul_(1 - gate).mul_(alpha)
            pre_gradient = slope if carried is None else slope.addcmul_(carried, gate)
            down = pre_gradient @ weights[layer]
            here = activation_gradients[layer]
            carried = down if here is None else down.add_(here)
        assert carried is not None
        return total, carried

    def _layer(self, layer: int, signal: Tensor, activation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return w_l ||R_l||^2 / ||theta_l||^2 and its gradients with respect to D_l and A_{l-1}."""
        left, right = self._entry_weights(layer)
        residual = torch.addmm(self.network.weights[layer], signal.T, activation, alpha=-1)
        weighted = residual * left.square() * right.square()
        value = (residual * weighted).sum()
        signal_gradient = activation @ weighted.T
        bias = self.network.biases[layer]
        if bias is not None:
            bias_residual = bias - signal.sum(0)
            bias_weighted = bias_residual * left[:, 0].square() * self._bias_weight(layer) ** 2
            value = value + (bias_residual * bias_weighted).sum()
            signal_gradient = signal_gradient + bias_weighted
        scale = self.scales[layer]
        return value * scale, signal_gradient.mul_(-2 * scale), (signal @ weighted).mul_(-2 * scale)
