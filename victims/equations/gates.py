"""The ReLU, with a derivative other than its own.

With the true ReLU, grad_theta Phi depends on x through the indicator 1[z > 0], which has no derivative: the residual
could not be minimised over x. The attacks keep the forward pass and take the smooth gate sigmoid(alpha z) for the
derivative; the gate is differentiated in turn (Haim et al. 2022, Appendix B). A training that is to end on the kinks
rounds the ReLU's corner to a parabola instead, forward and backward (Chen 2012, Smoothing methods for nonsmooth,
nonconvex minimization).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

SMALLEST = 1e-3
"""Root mean square of a neuron's pre-activations, relative to its layer's largest, under which it counts as this."""


class SmoothGateReLU(torch.autograd.Function):
    """relu(z) forward, sigmoid(alpha z) as its derivative; can be differentiated twice."""

    @staticmethod
    def forward(ctx: Any, pre_activation: Tensor, alpha: float) -> Tensor:
        """Return relu(z)."""
        ctx.save_for_backward(pre_activation)
        ctx.alpha = alpha
        return pre_activation.relu()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Return the gradient times sigmoid(alpha z); traced, so that it has a derivative itself."""
        (pre_activation,) = ctx.saved_tensors
        return gradients[0] * torch.sigmoid(ctx.alpha * pre_activation), None


def smooth_gate_relu(pre_activation: Tensor, alpha: float) -> Tensor:
    """Return relu(z), with sigmoid(alpha z) in place of its derivative."""
    result: Tensor = SmoothGateReLU.apply(pre_activation, alpha)
    return result


def smooth_gate(alpha: float) -> Callable[[Tensor], Tensor]:
    """Return `smooth_gate_relu` of this sharpness, as an activation."""
    return partial(smooth_gate_relu, alpha=alpha)


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
