"""The stationarity residual where pre-activations sit on the kink of the ReLU.

Training to a stationary point drives pre-activations to zero. There the loss has no gradient; what holds is that zero
lies in Clarke's subdifferential: theta_l = sum_i D_i' A_i, where D_ij = U_ij g_ij, U is the error before its gate and
g_ij may be any number in [0, 1] where z_ij = 0 (Lyu & Li 2020, Appendix A). Autograd takes g_ij = 0 there, and the
residual that it leaves is no distance from stationarity.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import lsq_linear
from torch import Tensor

from victims.equations.gates import RoundedReLU, corner_slopes, corner_widths
from victims.equations.network import Network

KINK = 1e-3
"""A pre-activation counts as on the kink if its size is below KINK times its neuron's root mean square."""


def kink_residuals(network: Network, inputs: Tensor, coefficients: Tensor, corner: float | None = None) -> list[float]:
    """Return ||theta_l - sum_ij c_ij grad_l Phi_j(x_i)|| / ||theta_l|| for every layer l, with gates free on the kinks.

    The gates there are the slopes of the rounded ReLU with which the training ended, if it did. Otherwise they are
    fitted, the last layer first, each layer given the gates of the layers after it. In both cases the figure is an
    upper bound of the least residual.

    Args:
        network: a fully connected network, float64, on the CPU.
        inputs: (n, d), float64.
        coefficients: (n, C) c, float64.
        corner: relative width of the rounded ReLU's corner, None if the training did not round it.
    """
    activations, pre_activations = [inputs], list[Tensor]()

    def relu(pre_activation: Tensor) -> Tensor:
        pre_activations.append(pre_activation)
        activations.append(pre_activation.relu())
        return activations[-1]

    network.forward(inputs, relu)
    slopes = None if corner is None else _corner_slopes(network, inputs, corner)
    parameters = [_with_bias(weight, bias) for weight, bias in zip(network.weights, network.biases, strict=True)]
    extended = [
        _with_bias(activation, None if bias is None else torch.ones_like(activation[:, 0]))
        for activation, bias in zip(activations, network.biases, strict=True)
    ]

    def gated(layer: int, ungated: Tensor) -> Tensor:
        if slopes is not None:
            return ungated * slopes[layer]
        return ungated * _fitted_gates(parameters[layer], extended[layer], ungated, pre_activations[layer])

    errors, _ = network.back_propagate(coefficients, gated)
    layers = zip(parameters, errors, extended, strict=True)
    return [float((theta - error.T @ activation).norm() / theta.norm()) for theta, error, activation in layers]


def _with_bias(matrix: Tensor, column: Tensor | None) -> Tensor:
    """Return a matrix (k, d) with one more column (k,), if there is one."""
    return matrix if column is None else torch.cat([matrix, column[:, None]], 1)


def _corner_slopes(network: Network, inputs: Tensor, corner: float) -> list[Tensor]:
    """Return the slopes (n, h_l) of every hidden layer's rounded ReLUs, for inputs (n, d)."""
    slopes = []

    def rounded(pre_activation: Tensor) -> Tensor:
        widths = corner_widths(pre_activation, corner)
        slopes.append(corner_slopes(pre_activation, widths))
        activation: Tensor = RoundedReLU.apply(pre_activation, widths)
        return activation

    network.forward(inputs, rounded)
    return slopes


def _fitted_gates(parameters: Tensor, activations: Tensor, ungated: Tensor, pre_activations: Tensor) -> Tensor:
    """Return gates g (n, h): 0 or 1 off the kink, and on it the best fit of theta_j = sum_i U_ij g_ij a_i.

    The fit is a bounded least-squares problem for each neuron j.

    Args:
        parameters: (h, d) theta of the layer, the bias as a last column.
        activations: (n, d) inputs a of the layer, extended by ones for the bias.
        ungated: (n, h) errors U before their gates.
        pre_activations: (n, h) z.
    """
    gates = (pre_activations > 0).to(pre_activations)
    free = pre_activations.abs() < KINK * pre_activations.square().mean(0).sqrt()
    left = parameters - (ungated * gates * ~free).T @ activations
    for neuron in free.any(0).nonzero()[:, 0].tolist():
        chosen = free[:, neuron].nonzero()[:, 0]
        matrix = (ungated[chosen, neuron][:, None] * activations[chosen]).T.numpy()
        basis, triangle = np.linalg.qr(matrix)
        fitted = lsq_linear(triangle, basis.T @ left[neuron].numpy(), (0, 1))
        gates[chosen, neuron] = torch.from_numpy(fitted.x)
    return gates
