"""The stationarity residual of a fully connected network and its gradient, written down: the form that runs.

The form to read is `victims.equations.stationarity`; A, Z, G and D are those of `victims.equations.network`, with the
smooth gates G_l = sigmoid(alpha Z_l) and coefficients c_ij on the outputs. Offsets O, where given, make those of layer
1 sigmoid(alpha Z_1 + O), for pre-activations on the ReLU's kink, where a gate may be any number in [0, 1] (Lyu & Li
2020, Appendix A). The residual of eq. (3) of Haim et al. 2022 is R_l = W_l - D_l' A_{l-1}, and b_l less the column sums
of D_l. Its own gradient needs one more pass up through the recursion of D and one down through the forward pass, with
the smooth gate as the derivative of the ReLU throughout, as in the authors' code. That is five matrix products a layer,
and no graph is kept. The coefficients may depend on the outputs Z_L and on variables of their own: that map is small,
(m, C) numbers, and autograd differentiates it. Several searches are one computation: a leading dimension of the inputs
counts them, and each has its own residual.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from victims.equations.network import Network
from victims.equations.spans import Spans
from victims.equations.stationarity import CoefficientMap

SMALLEST_NEURON = 0.02
"""Norm, relative to the root mean square, under which a neuron of layer 1 counts as small as this."""


def neuron_norms(weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return the norms (h,) of neurons' weights (h, r) and biases (h,), relative to their root mean square."""
    squares = weight.square().sum(1) + (0 if bias is None else bias.square())
    return (squares / squares.mean()).sqrt().clamp_min(SMALLEST_NEURON)


@dataclass(frozen=True)
class Weighting:
    """How much each entry of the residual counts.

    Attributes:
        layers: (L,) weight of each layer's squared residual, relative to that layer's squared norm; layers of weight
            0 are not computed.
        neurons: (h_1,) weight of each neuron of layer 1.
        coordinates: (r,) weight of each coordinate of layer 1's inputs.
        bias: weight of the residual of b_1, on the scale of `coordinates`.
    """

    layers: tuple[float, ...]
    neurons: Tensor
    coordinates: Tensor
    bias: float

    @classmethod
    def uniform(cls, network: Network, layers: tuple[float, ...]) -> Weighting:
        """Return the weighting that counts all entries of a layer alike."""
        first = network.weights[0]
        return cls(layers, torch.ones(len(first)).to(first), torch.ones(first.shape[1]).to(first), 1.0)


PARTS = 8
"""The number of parts in which the candidates are taken if all at once do not fit into memory."""
_Entries = tuple[Tensor | None, Tensor | None]
"""Tensors of the shapes of a layer's weight and bias; None for a layer that does not count, or has no bias."""


@dataclass(frozen=True)
class _Pass:
    """What one pass of m candidates forward through the network and back leaves, in the letters of the module.

    Attributes:
        activations: A_0 to A_{L-1}, (m, h_l).
        gates: G_1 to G_{L-1}, (m, h_l).
        outputs: Z_L (m, C), a leaf of the graph of `coefficients`.
        coefficients: c (m, C).
        errors: D_1 to D_L, (m, h_l).
        ungated: D_{l+1} W_{l+1} (m, h_l) for l = 1 to L - 1.
    """

    activations: list[Tensor]
    gates: list[Tensor]
    outputs: Tensor
    coefficients: Tensor
    errors: list[Tensor]
    ungated: list[Tensor]


class StationarityResidual:
    """The weighted squared residual sum_l w_l ||R_l||^2 / ||theta_l||^2 of one network, and its gradient.

    Shapes are for one search; with inputs (R, m, r) everything has the leading dimension R.

    Args:
        network: the network.
        weighting: the weights w of the layers, and the weights of single entries.
        parts: number of parts in which the candidates are taken. Memory falls with it; with more than one, each part
            goes forward three times instead of once.
        spans: the spans of the candidates and the costs of leaving them, which are in the gradient alone.
        sharpness: (h_1,) factors of alpha for the gates of layer 1, None for ones.
    """

    def __init__(
        self,
        network: Network,
        weighting: Weighting,
        parts: int = 1,
        spans: Spans | None = None,
        sharpness: Tensor | None = None,
    ) -> None:
        self.network, self.weighting, self.parts = network, weighting, parts
        self.spans, self.sharpness = spans or Spans(), sharpness
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
        """Return the weights of a layer's neurons (h_l, 1) and of its coordinates (1, h_{l-1}); of ones, (1, 1)."""
        if layer == 0:
            return self.weighting.neurons[:, None], self.weighting.coordinates[None]
        one = self.network.weights[0].new_ones(1, 1)
        return one, one

    def _bias_weight(self, layer: int) -> float:
        """Return the weight of the residual of a layer's bias."""
        return self.weighting.bias if layer == 0 else 1.0

    def _alpha(self, layer: int, alpha: float) -> float | Tensor:
        """Return the sharpness of the gates after a layer: a number, or one a neuron (h_1,)."""
        return alpha if layer > 0 or self.sharpness is None else alpha * self.sharpness

    def in_parts(self) -> StationarityResidual:
        """Return the same residual, for less memory."""
        return StationarityResidual(self.network, self.weighting, PARTS, self.spans, self.sharpness)

    @torch.no_grad()
    def __call__(
        self, inputs: Tensor, coefficients: CoefficientMap, alpha: float, offsets: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the residual, a scalar tensor summed over searches, and its gradient (m, r) by the inputs.

        The gradients with respect to the offsets and to the variables of `coefficients` are added to their `.grad`, as
        by `backward`. The cost of leaving the spans is in the gradients alone.

        Args:
            inputs: (m, r) candidates, on the coordinates that the network takes.
            coefficients: maps the outputs (m, C) to the coefficients c (m, C), differentiably.
            alpha: sharpness of the gates.
            offsets: O (m, h_1), a leaf tensor: the gates of layer 1 are sigmoid(alpha Z_1 + O). None for zeros.
        """
        if self.parts == 1:
            whole = self._pass(inputs, coefficients, alpha, offsets)
            value, slopes = self._value(self._without(self._theta(), whole))
            gradient, by_offset = self._gradient(whole, slopes, alpha)
            _add(offsets, [by_offset])
            return value, gradient
        parts = inputs.split(-(-inputs.shape[-2] // self.parts), dim=-2)
        sizes = [part.shape[-2] for part in parts]
        shifts = [None] * len(parts) if offsets is None else offsets.split(sizes, dim=-2)
        outputs = [self._forward(part, alpha, shift)[2] for part, shift in zip(parts, shifts, strict=True)]

        def passed(index: int) -> _Pass:
            def of_part(own: Tensor) -> Tensor:
                every = coefficients(torch.cat([*outputs[:index], own, *outputs[index + 1 :]], dim=-2))
                return torch.split(every, sizes, dim=-2)[index]

            return self._pass(parts[index], of_part, alpha, shifts[index])

        residuals = self._theta()
        for index in range(len(parts)):
            residuals = self._without(residuals, passed(index))
        value, slopes = self._value(residuals)
        pairs = [self._gradient(passed(index), slopes, alpha) for index in range(len(parts))]
        _add(offsets, [by_offset for _, by_offset in pairs])
        return value, torch.cat([gradient for gradient, _ in pairs], dim=-2)

    def _forward(
        self, inputs: Tensor, alpha: float, offsets: Tensor | None = None
    ) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Return activations A_0 to A_{L-1}, gates G_1 to G_{L-1} and outputs Z_L for inputs (m, r)."""
        activations, gates = [inputs], list[Tensor]()

        def relu(pre_activation: Tensor) -> Tensor:
            steep = self._alpha(len(gates), alpha) * pre_activation
            gates.append(torch.sigmoid(steep if offsets is None or gates else steep + offsets))
            activations.append(pre_activation.relu_())
            return activations[-1]

        return activations, gates, self.network.forward(inputs, relu)

    def _pass(self, inputs: Tensor, coefficients: CoefficientMap, alpha: float, offsets: Tensor | None = None) -> _Pass:
        """Return the pass of inputs (m, r) forward and back."""
        activations, gates, outputs = self._forward(inputs, alpha, offsets)
        outputs.requires_grad_()
        with torch.enable_grad():
            c = coefficients(outputs)
        errors, ungated = self.network.back_propagate(c.detach(), lambda layer, error: error * gates[layer])
        return _Pass(activations, gates, outputs, c, errors, ungated)

    def _theta(self) -> list[_Entries]:
        """Return theta for every layer that counts: the residuals R of no candidate."""
        layers = zip(self.weighting.layers, self.network.weights, self.network.biases, strict=True)
        return [(weight, bias) if counts else (None, None) for counts, weight, bias in layers]

    def _without(self, residuals: list[_Entries], found: _Pass) -> list[_Entries]:
        """Return the residuals R less D_l' A_{l-1}, what the candidates of a pass explain."""
        explained = zip(residuals, found.errors, found.activations, strict=True)
        return [
            (
                None if weight is None else weight - error.mT @ activation,
                None if bias is None else bias - error.sum(-2),
            )
            for (weight, bias), error, activation in explained
        ]

    def _value(self, residuals: list[_Entries]) -> tuple[Tensor, list[_Entries]]:
        """Return sum_l w_l ||R_l||^2 / ||theta_l||^2, and half of the derivative of every ||R_l||^2 by R_l."""
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

    def _gradient(self, found: _Pass, slopes: list[_Entries], alpha: float) -> tuple[Tensor, Tensor | None]:
        """Return the gradients by the inputs (m, r) and the offsets (m, h_1) of a pass, given `_value`'s slopes."""
        weights, depth, gates = self.network.weights, self.network.depth, found.gates
        error_gradient: Tensor | None = None
        activation_gradients: list[Tensor | None] = []
        gate_gradients: list[Tensor] = []
        for layer in range(depth):
            direct, activation_gradient = self._by_layer(layer, found, *slopes[layer])
            activation_gradients.append(activation_gradient)
            if layer > 0:
                assert error_gradient is not None or not any(self.weighting.layers[:layer])
                if error_gradient is not None:
                    gated = error_gradient * gates[layer - 1]
                    gate_gradients.append(error_gradient.mul_(found.ungated[layer - 1]))
                    through = gated @ weights[layer].T
                    direct = through if direct is None else direct.add_(through)
                else:
                    gate_gradients.append(torch.zeros_like(found.ungated[layer - 1]))
            error_gradient = direct
        assert error_gradient is not None, "at least one layer must have a weight"
        if found.coefficients.requires_grad:
            torch.autograd.backward(found.coefficients, error_gradient)
        carried = activation_gradients[depth - 1]
        if found.outputs.grad is not None:
            through = found.outputs.grad @ weights[-1]
            carried = through if carried is None else carried.add_(through)
        by_offset: Tensor | None = None
        for layer in range(depth - 2, -1, -1):
            gate = gates[layer]
            by_offset = gate_gradients[layer].mul_(gate).mul_(1 - gate)
            slope = by_offset * self._alpha(layer, alpha)
            pre_gradient = slope if carried is None else slope.addcmul_(carried, gate)
            down = pre_gradient @ weights[layer]
            here = activation_gradients[layer]
            carried = down if here is None else down.add_(here)
        assert carried is not None
        return carried, by_offset

    def _by_layer(
        self, layer: int, found: _Pass, slope: Tensor | None, bias_slope: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients by D_l and by A_{l-1} of w_l ||R_l||^2 / ||theta_l||^2 and of the spans' cost."""
        by_error: Tensor | None = None
        by_activation: Tensor | None = None
        if slope is not None:
            by_error = found.activations[layer] @ slope.mT
            if bias_slope is not None:
                by_error += bias_slope.unsqueeze(-2)
            scale = -2 * self.scales[layer]
            by_error, by_activation = by_error.mul_(scale), (found.errors[layer] @ slope).mul_(scale)
        if layer == 0 and self.spans.errors is not None:
            cost = self.spans.errors.gradient(found.errors[0])
            by_error = cost if by_error is None else by_error.add_(cost)
        if layer == 1 and self.spans.activations is not None:
            cost = self.spans.activations.gradient(found.activations[1])
            by_activation = cost if by_activation is None else by_activation.add_(cost)
        return by_error, by_activation


def _add(offsets: Tensor | None, parts: list[Tensor | None]) -> None:
    """Add gradients of parts of the candidates to the `.grad` of offsets (m, h_1), if there are any."""
    if offsets is not None:
        gradient = torch.cat([part for part in parts if part is not None], dim=-2)
        offsets.grad = gradient if offsets.grad is None else offsets.grad + gradient
