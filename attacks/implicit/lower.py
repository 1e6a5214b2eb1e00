"""The lower level: train to a minimum, to a stated tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.implicit.inverse import Product, solve
from victims.training.lbfgs import lbfgs

NEWTON_STEPS = 4
NEWTON_TOLERANCE = 1e-3
NEWTON_PRODUCTS = 500


@dataclass(frozen=True)
class Minimum:
    """The end of a lower-level solve.

    Attributes:
        theta: (p,).
        relative_gradient: ||gradient|| / (convexity ||theta||), which bounds theta's relative error where E is
            convex.
    """

    theta: Tensor
    relative_gradient: float


def minimise(
    loss: Callable[[Tensor], Tensor], start: Tensor, convexity: float, tolerance: float, steps: int
) -> Minimum:
    """Minimise a regularised loss by L-BFGS; where rounding stops that, Newton steps go on.

    Args:
        loss: theta (p,) to a scalar; twice differentiable.
        start: (p,) where to start.
        convexity: what its regularisation adds to its Hessian, weight decay and damping.
        tolerance: relative gradient at which to stop.
        steps: the most L-BFGS iterations.
    """
    relative = math.inf

    def evaluate(theta: Tensor) -> tuple[float, Tensor]:
        nonlocal relative
        theta = theta.requires_grad_()
        value = loss(theta)
        (gradient,) = torch.autograd.grad(value, theta)
        relative = _relative(gradient, theta.detach(), convexity)
        return float(value.detach()), gradient

    theta = lbfgs(evaluate, start, steps, lambda: relative <= tolerance)
    gradient, product = hessian(loss, theta)
    for _ in range(NEWTON_STEPS):
        if _relative(gradient, theta, convexity) <= tolerance:
            break
        step = solve("cg", product, gradient, NEWTON_TOLERANCE, NEWTON_PRODUCTS).solution
        nearer, its_product = hessian(loss, theta - step)
        if not nearer.norm() < gradient.norm():
            break
        theta, gradient, product = theta - step, nearer, its_product
    return Minimum(theta, _relative(gradient, theta, convexity))


def hessian(loss: Callable[[Tensor], Tensor], theta: Tensor) -> tuple[Tensor, Product]:
    """Return a loss's gradient (p,) at theta (p,) and the function that multiplies by its Hessian there."""
    theta = theta.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(theta), theta, create_graph=True)

    def product(v: Tensor) -> Tensor:
        (image,) = torch.autograd.grad(gradient, theta, v, retain_graph=True)
        return image

    return gradient.detach(), product


def _relative(gradient: Tensor, theta: Tensor, convexity: float) -> float:
    return float(gradient.norm() / (convexity * theta.norm()).clamp_min(torch.finfo(theta.dtype).tiny))
