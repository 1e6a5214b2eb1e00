"""Newton's method for the affine classifier, whose training problem is smooth and convex.

A line search compares values of the objective f. Where ||gradient||^2 < 2 mu eps f, with mu the curvature along the
step, they differ by less than rounding, so a line search ends at a relative gradient of about sqrt(eps) = 1.5e-8. A
Newton step needs the gradient alone, whose rounding is of the order of eps, and squares the relative gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

STEPS = 20
LARGEST = 8192
"""The largest number of parameters: the Hessian then takes half a gigabyte."""


def newton(signed_inputs: Tensor, weight_decay: float, start: Tensor, tolerance: float) -> Tensor:
    """Return the minimum (p,) of mean_i log(1 + exp(-y_i x_i theta)) + (weight_decay / 2) ||theta||^2.

    It ends when ||gradient|| <= tolerance * weight_decay * ||theta||, or when a step no longer shrinks the gradient.
    With more than `LARGEST` parameters it returns the start.

    Args:
        signed_inputs: (n, p) float64, y_i x_i: each input times its label of -1 or +1.
        weight_decay: > 0.
        start: (p,) float64, near the minimum.
        tolerance: relative gradient at which to end.
    """
    if len(start) > LARGEST:
        return start
    theta, nearer, least = start, start, torch.inf
    for _ in range(STEPS):
        wrong = torch.sigmoid(-signed_inputs @ nearer)
        gradient = weight_decay * nearer - signed_inputs.T @ wrong / len(signed_inputs)
        size = float(gradient.norm())
        if not size < least:
            break
        theta, least = nearer, size
        if size <= tolerance * weight_decay * float(theta.norm()):
            break
        hessian = (signed_inputs.T * (wrong * (1 - wrong) / len(signed_inputs))) @ signed_inputs
        hessian.diagonal().add_(weight_decay)
        nearer = theta - torch.linalg.solve(hessian, gradient)
    return theta
