"""The stationarity residual with the ReLU's derivative free in [0, 1] where a pre-activation sits on the kink.

Training to a stationary point drives pre-activations to zero: there the loss has no gradient, and what holds is that
zero lies in Clarke's subdifferential, theta_l = sum_i D_i' A_i with D_ij = S_ij g_ij and g_ij in [0, 1] where z_ij = 0
(Lyu & Li 2020, Appendix A). Autograd's g is 0 or 1 there, and what it leaves is no distance from stationarity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.optimize import lsq_linear
from torch import Tensor

from victims.equations.architectures import MLP

KINK = 1e-3
"""Relative to a neuron's root mean square, how near to zero a pre-activation counts as being on the kink."""
SMALLEST = 1e-3
"""Root mean square of a neuron's pre-activations, relative to its layer's largest, under which it counts as this."""


def corner_widths(before: Tensor, corner: float) -> Tensor:
    """Return the width (h,) of a layer's rounded corners: `corner` times the size of its pre-activations (n, h)."""
    size = before.square().mean(0).sqrt()
    return corner * size.clamp_min(SMALLEST * float(size.max()))


def corner_slopes(before: Tensor, widths: Tensor) -> Tensor:
    """Return the derivative (n, h) of a ReLU whose corner is a parabola of these widths: 0, z / w + 1/2, or 1."""
    return (before / widths + 0.5).clamp(0, 1)


class RoundedReLU(torch.autograd.Function):
    """0 below -w / 2, z above w / 2, and between them the parabola (z + w / 2)^2 / (2 w)."""

    @staticmethod
    def forward(ctx: Any, pre_activation: Tensor, width: Tensor) -> Tensor:
        """Return the activations (n, h), given the widths (h,)."""
        slope = corner_slopes(pre_activation, width)
        ctx.save_for_backward(slope)
        return torch.where(slope < 1, width / 2 * slope.square(), pre_activation)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Return the gradient times the slope."""
        (slope,) = ctx.saved_tensors
        return gradients[0] * slope, None


def kink_residuals(model: MLP, inputs: Tensor, coefficients: Tensor, corner: float | None = None) -> list[float]:
    """Return ||theta_l - sum_ij c_ij grad_l Phi_j(x_i)|| / ||theta_l||, per layer, given what is chosen on the kinks.

    The derivatives there are those of the rounded ReLU with which the training ended, if it did. Else they are fitted,
    layers from the last to the first, each given the derivatives of those after it. Either way an upper bound of the
    least residual.

    Args:
        model: a fully connected network.
        inputs: (n, C, H, W), mean-subtracted.
        coefficients: (n, C) c.
        corner: relative width of the rounded ReLU's corner, None if the training did not round it.
    """
    layers = model.linears()
    weights = [layer.weight.detach().double() for layer in layers]
    biases = [None if layer.bias is None else layer.bias.detach().double() for layer in layers]
    activations, before = [inputs.flatten(1).double()], []
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        before.append(torch.nn.functional.linear(activations[-1], weight, bias))
        activations.append(before[-1].relu())
    given = None if corner is None else _corner_derivatives(weights, biases, activations[0], corner)

    residuals: list[float] = []
    signals = coefficients.double()
    for index in reversed(range(len(layers))):
        weight, activation, bias = weights[index], activations[index], biases[index]
        rows = weight if bias is None else torch.cat([weight, bias[:, None]], 1)
        columns = activation if bias is None else torch.cat([activation, torch.ones_like(activation[:, :1])], 1)
        if index < len(layers) - 1:
            known = None if given is None else given[index]
            signals = signals * (_fitted_derivatives(rows, columns, signals, before[index]) if known is None else known)
        residuals.insert(0, float((rows - signals.T @ columns).norm() / rows.norm()))
        signals = signals @ weight
    return residuals


def _corner_derivatives(
    weights: Sequence[Tensor], biases: Sequence[Tensor | None], inputs: Tensor, corner: float
) -> list[Tensor]:
    """Return the derivatives (n, h) of every hidden layer's rounded ReLUs, for inputs (n, d)."""
    derivatives = []
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        before = torch.nn.functional.linear(inputs, weight, bias)
        widths = corner_widths(before, corner)
        derivatives.append(corner_slopes(before, widths))
        inputs = RoundedReLU.apply(before, widths)
    return derivatives


def _fitted_derivatives(rows: Tensor, columns: Tensor, signals: Tensor, before: Tensor) -> Tensor:
    """Return g (n, h): 0 or 1 off the kink, and on it what fits best row_j = sum_i S_ij g_ij a_i, for every neuron j.

    Args:
        rows: (h, d) weights of the layer.
        columns: (n, d) its inputs a.
        signals: (n, h) S.
        before: (n, h) pre-activations z.
    """
    derivatives = (before > 0).to(before)
    free = before.abs() < KINK * before.square().mean(0).sqrt()
    fixed = rows - (signals * derivatives * ~free).T @ columns
    for neuron in free.any(0).nonzero()[:, 0].tolist():
        chosen = free[:, neuron].nonzero()[:, 0]
        matrix = (signals[chosen, neuron][:, None] * columns[chosen]).T.numpy()
        basis, triangle = np.linalg.qr(matrix)
        fitted = lsq_linear(triangle, basis.T @ fixed[neuron].numpy(), (0, 1))
        derivatives[chosen, neuron] = torch.from_numpy(fitted.x)
    return derivatives
