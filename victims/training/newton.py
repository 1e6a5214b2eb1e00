"""Newton's method for the affine classifier, whose training problem is smooth and convex.

A line search compares values, and near a minimum of value f they differ by less than f's rounding while
||gradient||^2 < 2 mu eps f, with mu the curvature along the step: its relative gradient may end anywhere about
sqrt(eps) = 1.5e-8. A Newton step asks for the gradient alone, whose rounding is of the order of eps, and squares the
relative gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

STEPS = 20
LARGEST = 8192
"""Parameters of the largest problem: its Hessian takes half a gigabyte."""


def newton(rows: Tensor, weight_decay: float, start: Tensor, tolerance: float) -> Tensor:
    """Return the minimum (p,) of mean_i log(1 + exp(-rows_i theta)) + (weight_decay / 2) ||theta||^2.

    It ends when ||gradient|| <= tolerance * weight_decay * ||theta||, or where a step shrinks the gradient no further:
    far from the minimum, or at its rounding. Of more than `LARGEST` parameters it returns the start.

    Args:
        rows: (n, p) float64, each sample times its label of -1 or +1.
        weight_decay: > 0.
        start: (p,) float64, near the minimum.
        tolerance: of the relative gradient.
    """
    if len(start) > LARGEST:
        return start
    theta, nearer, least = start, start, torch.inf
    for _ in range(STEPS):
        wrong = torch.sigmoid(-rows @ nearer)
        gradient = weight_decay * nearer - rows.T @ wrong / len(rows)
        size = float(gradient.norm())
        if not size < least:
            break
        theta, least = nearer, size
        if size <= tolerance * weight_decay * float(theta.norm()):
            break
        hessian = (rows.T * (wrong * (1 - wrong) / len(rows))) @ rows
        hessian.diagonal().add_(weight_decay)
        nearer = theta - torch.linalg.solve(hessian, gradient)
    return theta
