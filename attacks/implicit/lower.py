"""The lower level: the minimum of a training problem, to a given tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.implicit.inverse import Product, solve
from victims.training.lbfgs import lbfgs

NEWTON_STEPS = 4
"""The most Newton steps where L-BFGS stopped short."""
NEWTON_TOLERANCE = 1e-3
"""Relative residual at which conjugate gradients end in a Newton step."""
NEWTON_PRODUCTS = 500
"""The most Hessian products of a Newton step."""


@dataclass(frozen=True)
class Minimum:
    """The solution of the lower level.

    Attributes:
        theta: (p,) parameters.
        relative_gradient: ||gradient|| / (convexity ||theta||), which bounds theta's relative error where E is
            convex.
    """

    theta: Tensor
    relative_gradient: float


def minimise(
    loss: Callable[[Tensor], Tensor], start: Tensor, convexity: float, tolerance: float, steps: int
) -> Minimum:
    """Return the minimum of a regularised loss, by L-BFGS and, if it stops short, Newton steps.

    Args:
        loss: maps theta (p,) to a scalar; twice differentiable.
        start: (p,).
        convexity: the multiple of the identity in the loss's Hessian, weight decay plus damping.
        tolerance: relative gradient at which to stop.
        steps: the largest number of iterations.
    """
    relative = math.inf

    def evaluate(theta: Tensor) -> tuple[float, Tensor]:
        nonlocal relative
        theta = theta.requires_grad_()
        value = loss(theta)
        (gradient,) = torch.autograd.grad(value, theta)
        relative = _relative(gradient, theta.detach(), convexity)
        return float(value.detach()), gradient

    def done() -> bool:
        return relative <= tolerance

    theta = lbfgs(evaluate, start, steps, done)
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
    """Return the gradient (p,) of a loss at theta (p,), and the function that multiplies (p,) by the Hessian there."""
    theta = theta.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(theta), theta, create_graph=True)

    def product(v: Tensor) -> Tensor:
        (image,) = torch.autograd.grad(gradient, theta, v, retain_graph=True)
        return image

    return gradient.detach(), product


def _relative(gradient: Tensor, theta: Tensor, convexity: float) -> float:
    """Return ||gradient|| / (convexity ||theta||)."""
    return float(gradient.norm() / (convexity * theta.norm()).clamp_min(torch.finfo(theta.dtype).tiny))
