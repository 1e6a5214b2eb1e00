"""The ReLU whose derivative is a sigmoid (Haim et al. 2022, Appendix B).

With the true ReLU, grad_theta Phi depends on x through the indicator 1[z > 0], which has no derivative: the residual
could not be minimised over x. The attacks keep the forward pass and replace the derivative by sigmoid(alpha z), which
in turn is differentiated.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


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
