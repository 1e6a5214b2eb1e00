"""The stationarity residual of a fully connected network and its gradient, written down.

For candidates x_i with coefficients c_ij on the outputs, the gradient of sum_ij c_ij Phi_j(theta; x_i) with respect to
W_l is D_l' A_{l-1} (and its column sums 1'D_l for b_l), where

    A_0 = X,   Z_l = A_{l-1} W_l' + b_l,   A_l = relu(Z_l),   G_l = sigmoid(alpha Z_l)       (forward)
    D_L = c,   D_l = (D_{l+1} W_{l+1}) * G_l                                                  (back-propagated signal)

and the residual of eq. (3) of Haim et al. 2022 is R_l = W_l - D_l' A_{l-1}. Its own gradient needs one more pass up
through the D recursion and one down through the forward pass, with the smooth gate as the derivative of the ReLU
throughout, as in the authors' code. That is five matrix products a layer, and no graph is kept. The coefficients may
depend on the outputs Z_L and on variables of their own: that map is small, (m, C) numbers, and autograd differentiates
it. Several searches are one computation: a leading dimension of the inputs counts them, and each has its own residual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from victims.equations.network import Network
from victims.equations.spans import Spans


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


PARTS = 8
"""How many parts the candidates are taken in where all at once do not fit into memory."""
Rows = Callable[[Tensor], Tensor]
"""A map from outputs (m, C) to coefficients (m, C), differentiable; a row depends on the same row alone."""
_Entries = tuple[Tensor | None, Tensor | None]
"""Something of the shape of a layer's weight and bias; None for a layer that does not count, or has no bias."""


@dataclass(frozen=True)
class _Pass:
    """Some of the candidates on their way forward through the network and back, in the letters of the module.

    Attributes:
        activations: A_0 to A_{L-1}.
        gates: G_1 to G_{L-1}.
        outputs: Z_L, a leaf of the graph of `chosen`.
        chosen: c.
        signals: D_1 to D_L.
        ungated: D_{l+1} W_{l+1} for l = 1 to L - 1.
    """

    activations: list[Tensor]
    gates: list[Tensor]
    outputs: Tensor
    chosen: Tensor
    signals: list[Tensor]
    ungated: list[Tensor]


class StationarityResidual:
    """The weighted squared residual sum_l w_l ||R_l||^2 / ||theta_l||^2 of one network, and its gradient.

    Shapes are those of one search; with inputs (R, m, r) everything has the leading dimension R.

    Args:
        network: the network.
        weighting: the weights w, and those of the entries.
        parts: how many parts the candidates are taken in: memory falls with their number, and each goes forward three
            times instead of once.
        spans: what each candidate pays for besides, in the gradient alone.
    """

    def __init__(self, network: Network, weighting: Weighting, parts: int = 1, spans: Spans | None = None) -> None:
        self.network, self.weighting, self.parts = network, weighting, parts
        self.spans = spans or Spans()
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

    def in_parts(self) -> StationarityResidual:
        """Return the same residual, for less memory."""
        return StationarityResidual(self.network, self.weighting, PARTS, self.spans)

    @torch.no_grad()
    def __call__(self, inputs: Tensor, coefficients: Rows, alpha: float) -> tuple[Tensor, Tensor]:
        """Return the residual (a scalar tensor, summed over searches) and its gradient with respect to the inputs.

        The gradients with respect to the variables of `coefficients` are added to their `.grad`, as by `backward`. The
        cost of leaving the spans is in the gradients alone.

        Args:
            inputs: (m, r) candidates, on the coordinates that the network takes.
            coefficients: maps the outputs (m, C) to the coefficients c (m, C), differentiably.
            alpha: sharpness of the gates.
        """
        if self.parts == 1:
            whole = self._pass(inputs, coefficients, alpha)
            value, slopes = self._value(self._without(self._theta(), whole))
            return value, self._gradient(whole, slopes, alpha)
        parts = inputs.split(-(-inputs.shape[-2] // self.parts), dim=-2)
        sizes = [part.shape[-2] for part in parts]
        outputs = [self._forward(part, alpha)[2] for part in parts]

        def passed(index: int) -> _Pass:
            def rows(own: Tensor) -> Tensor:
                every = coefficients(torch.cat([*outputs[:index], own, *outputs[index + 1 :]], dim=-2))
                return torch.split(every, sizes, dim=-2)[index]

            return self._pass(parts[index], rows, alpha)

        residuals = self._theta()
        for index in range(len(parts)):
            residuals = self._without(residuals, passed(index))
        value, slopes = self._value(residuals)
        gradients = [self._gradient(passed(index), slopes, alpha) for index in range(len(parts))]
        return value, torch.cat(gradients, dim=-2)

    def _forward(self, inputs: Tensor, alpha: float) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Return activations, gates and outputs."""
        weights, biases = self.network.weights, self.network.biases
        activations, gates = [inputs], []
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            pre = torch.nn.functional.linear(activations[-1], weight, bias)
            gates.append(torch.sigmoid(alpha * pre))
            activations.append(pre.relu_())
        return activations, gates, torch.nn.functional.linear(activations[-1], weights[-1], biases[-1])

    def _pass(self, inputs: Tensor, coefficients: Rows, alpha: float) -> _Pass:
        activations, gates, outputs = self._forward(inputs, alpha)
        outputs.requires_grad_()
        with torch.enable_grad():
            chosen = coefficients(outputs)
        signals = [chosen.detach()]
        ungated: list[Tensor] = []
        for layer in range(self.network.depth - 2, -1, -1):
            ungated.insert(0, signals[0] @ self.network.weights[layer + 1])
            signals.insert(0, ungated[0] * gates[layer])
        return _Pass(activations, gates, outputs, chosen, signals, ungated)

    def _theta(self) -> list[_Entries]:
        """Return the residuals R without any candidate."""
        layers = zip(self.weighting.layers, self.network.weights, self.network.biases, strict=True)
        return [(weight, bias) if counts else (None, None) for counts, weight, bias in layers]

    def _without(self, residuals: list[_Entries], found: _Pass) -> list[_Entries]:
        """Return the residuals R less what some candidates explain, D_l' A_{l-1}."""
        explained = zip(residuals, found.signals, found.activations, strict=True)
        return [
            (
                None if weight is None else weight - signal.mT @ activation,
                None if bias is None else bias - signal.sum(-2),
            )
            for (weight, bias), signal, activation in explained
        ]

    def _value(self, residuals: list[_Entries]) -> tuple[Tensor, list[_Entries]]:
        """Return sum_l w_l ||R_l||^2 / ||theta_l||^2, and half its derivatives with respect to the R_l."""
        total, slopes = self.network.weights[0].new_zeros(()), []
        for layer, (weight, bias) in enumerate(residuals):
            left, right = self._entry_weights(layer)
            half = None if weight is None else weight * left.square() * right.square()
            half_bias = None if bias is None else bias * left[:, 0].square() * self._bias_weight(layer) ** 2
            for entries, slope in ((weight, half), (bias, half_bias)):
                if entries is not None and slope is not None:
                    total = total + (entries * slope).sum() * self.scales[layer]
            slopes.append((half, half_bias))
        return total, slopes

    def _gradient(self, found: _Pass, slopes: list[_Entries], alpha: float) -> Tensor:
        """Return the gradient with respect to the inputs of a pass, given the derivatives by the residuals."""
        weights, depth, gates = self.network.weights, self.network.depth, found.gates
        signal_gradient: Tensor | None = None
        activation_gradients: list[Tensor | None] = []
        gate_gradients: list[Tensor] = []
        for layer in range(depth):
            direct, activation_gradient = self._by_layer(layer, found, *slopes[layer])
            activation_gradients.append(activation_gradient)
            if layer > 0:
                assert signal_gradient is not None or not any(self.weighting.layers[:layer])
                if signal_gradient is not None:
                    gated = signal_gradient * gates[layer - 1]
                    gate_gradients.append(signal_gradient.mul_(found.ungated[layer - 1]))
                    through = gated @ weights[layer].T
                    direct = through if direct is None else direct.add_(through)
                else:
                    gate_gradients.append(torch.zeros_like(found.ungated[layer - 1]))
            signal_gradient = direct
        assert signal_gradient is not None, "at least one layer must have a weight"
        if found.chosen.requires_grad:
            torch.autograd.backward(found.chosen, signal_gradient)
        carried = activation_gradients[depth - 1]
        if found.outputs.grad is not None:
            through = found.outputs.grad @ weights[-1]
            carried = through if carried is None else carried.add_(through)
        for layer in range(depth - 2, -1, -1):
            gate = gates[layer]
            slope = gate_gradients[layer].mul_(gate).mul_(1 - gate).mul_(alpha)
            pre_gradient = slope if carried is None else slope.addcmul_(carried, gate)
            down = pre_gradient @ weights[layer]
            here = activation_gradients[layer]
            carried = down if here is None else down.add_(here)
        assert carried is not None
        return carried

    def _by_layer(
        self, layer: int, found: _Pass, slope: Tensor | None, bias_slope: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients with respect to D_l and A_{l-1} of w_l ||R_l||^2 / ||theta_l||^2 and the spans' cost."""
        by_signal: Tensor | None = None
        by_activation: Tensor | None = None
        if slope is not None:
            by_signal = found.activations[layer] @ slope.mT
            if bias_slope is not None:
                by_signal += bias_slope.unsqueeze(-2)
            scale = -2 * self.scales[layer]
            by_signal, by_activation = by_signal.mul_(scale), (found.signals[layer] @ slope).mul_(scale)
        if layer == 0 and self.spans.signals is not None:
            cost = self.spans.signals.gradient(found.signals[0])
            by_signal = cost if by_signal is None else by_signal.add_(cost)
        if layer == 1 and self.spans.activations is not None:
            cost = self.spans.activations.gradient(found.activations[1])
            by_activation = cost if by_activation is None else by_activation.add_(cost)
        return by_signal, by_activation
