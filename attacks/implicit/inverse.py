"""Solutions of H p = b for a Hessian H that is known by its products alone.

The hypergradient needs them (Runkel et al. 2024, eqs. 5-7, who take a quasi-Newton method).

Away from a strict minimum H need not be positive definite. The methods here say so, which scipy's cg does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import LbfgsInvHessProduct
from torch import Tensor

from attacks.base import DivergedError

Product = Callable[[Tensor], Tensor]
MEMORY = 30
"""Pairs of moves and images that the quasi-Newton method keeps."""
LARGEST_DAMPING = 1e6
"""A Hessian that is not positive definite with this damping is given up."""


class NotPositiveError(DivergedError):
    """The Hessian is not positive definite: v' H v <= 0 for a direction v.

    Attributes:
        curvature: v' H v / v' v.
    """

    def __init__(self, curvature: float) -> None:
        super().__init__(f"the Hessian is not positive: curvature {curvature:.3g}")
        self.curvature = curvature


@dataclass(frozen=True)
class Solved:
    """The end of an inverse-Hessian product.

    Attributes:
        solution: (p,).
        residual: ||b - (H + damping I) p|| / ||b||.
        damping: the number that was added to the Hessian's diagonal to make it positive definite, or 0.
    """

    solution: Tensor
    residual: float
    damping: float


def solve(method: str, product: Product, b: Tensor, tolerance: float, steps: int) -> Solved:
    """Return the solution of H p = b, with growing damping as long as the Hessian is not positive definite.

    Args:
        method: a name of `METHODS`.
        product: maps v (p,) to H v (p,), H symmetric.
        b: (p,) right-hand side.
        tolerance: relative residual at which to stop.
        steps: the largest number of products for each damping.

    Raises:
        NotPositiveError: no damping up to `LARGEST_DAMPING` makes the Hessian positive definite, or it is not finite.
    """
    damping = 0.0
    while True:

        def damped(v: Tensor, damping: float = damping) -> Tensor:
            return product(v) + damping * v

        try:
            p = METHODS[method](damped, b, tolerance, steps)
        except NotPositiveError as error:
            damping = 2 * damping + 2 * abs(error.curvature) + torch.finfo(b.dtype).eps
            if not damping <= LARGEST_DAMPING:  # not a number, either
                raise
            continue
        return Solved(p, _relative(b - damped(p), b), damping)


def conjugate_gradient(product: Product, b: Tensor, tolerance: float, steps: int) -> Tensor:
    """Return H^-1 b (p,) by conjugate gradients (Hestenes & Stiefel 1952).

    Raises:
        NotPositiveError: a direction has no positive curvature.
    """
    p, residual = torch.zeros_like(b), b.clone()
    direction, square = residual.clone(), residual.square().sum()
    for _ in range(steps):
        if _relative(residual, b) <= tolerance:
            break
        image = product(direction)
        rate = square / _curvature(direction, image)
        p += rate * direction
        residual -= rate * image
        previous, square = square, residual.square().sum()
        direction = residual + square / previous * direction
    return p


def quasi_newton(product: Product, b: Tensor, tolerance: float, steps: int) -> Tensor:
    """Return H^-1 b (p,) by L-BFGS on p'Hp/2 - b'p with exact line searches, until the residual is small.

    The pairs of the lower level's own L-BFGS do not suffice: after a warm start they are few.

    Raises:
        NotPositiveError: a direction has no positive curvature.
    """
    moves: deque[np.ndarray] = deque(maxlen=MEMORY)
    images: deque[np.ndarray] = deque(maxlen=MEMORY)
    p, residual = torch.zeros_like(b), b.clone()
    for _ in range(steps):
        if _relative(residual, b) <= tolerance:
            break
        direction = residual.clone()
        if moves:
            estimate = LbfgsInvHessProduct(np.array(moves), np.array(images))
            direction = torch.from_numpy(estimate.matvec(residual.cpu().numpy())).to(b)
        image = product(direction)
        rate = residual @ direction / _curvature(direction, image)
        p += rate * direction
        residual -= rate * image
        moves.append(direction.cpu().numpy())
        images.append(image.cpu().numpy())
    return p


METHODS: dict[str, Callable[[Product, Tensor, float, int], Tensor]] = {
    "cg": conjugate_gradient,
    "quasi-newton": quasi_newton,
}
"""The methods that multiply by the inverse Hessian, by the value of the parameter `inverse`."""


def _curvature(direction: Tensor, image: Tensor) -> Tensor:
    """Return v' H v, a scalar tensor, for v (p,) and H v (p,); raises NotPositiveError."""
    curvature = direction @ image
    if not float(curvature) > 0:
        raise NotPositiveError(float(curvature / direction.square().sum()))
    return curvature


def _relative(residual: Tensor, b: Tensor) -> float:
    """Return ||residual|| / ||b||."""
    return float(residual.norm() / b.norm().clamp_min(torch.finfo(b.dtype).tiny))
