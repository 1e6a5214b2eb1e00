"""The gradient of the deleted records, from the releases before and after a deletion.

Both releases are stationary: F(theta) + g = 0 and F(theta_-) = 0, where F is the gradient of the objective on the
records that stay and g = sum of grad l(z; theta) over the deleted records z. Hence

    g = F(theta_-) - F(theta),

whatever the loss, as long as the deletion is a refit. To first order g = H (theta_- - theta) (Bertran et al. 2024), H
being the Hessian of the objective on the records that stay; for a squared loss both expressions are equal. The
adversary does not have these records, and takes m public ones, each with the weight (n - k) / m.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from victims.deletion.objective import Objective
from victims.deletion.spec import Deletion

Curvature = Literal["exact", "midpoint", "after"]


def deleted_gradient(
    training: Deletion, public: Objective, before: Tensor, after: Tensor, curvature: Curvature
) -> Tensor:
    """Return an estimate of g (p,), exact where the public records are those that stay.

    Args:
        training: how records were deleted.
        public: the objective on public records in the place of those that stay.
        before: (p,) the parameters before the deletion.
        after: (p,) the parameters after the deletion.
        curvature: "exact" undoes the deletion as it was made: a refit by the difference of gradients, a Newton step by
            the Hessian before it, gradient ascent by its learning rate (of several steps it gives the mean gradient).
            "midpoint" and "after" take the product of the Hessian there with the difference of the parameters.
    """
    moved = after - before
    if curvature == "midpoint":
        return public.curvature((before + after) / 2, moved)
    if curvature == "after":
        return public.curvature(after, moved)
    if training.method == "newton":
        return public.curvature(before, moved)
    if training.method == "ascent":
        return moved / (training.steps * training.lr)
    return public.gradient(after) - public.gradient(before)
