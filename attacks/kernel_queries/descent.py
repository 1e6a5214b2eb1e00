"""One damped Gauss-Newton step in a box, solved by conjugate gradients (Levenberg 1944, Marquardt 1963).

The derivative leaves out how the coefficients move along the residual (Kaufman 1975).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attacks.kernel_queries.equation import Answers, Fit

TRIES = 6
"""Dampings that are tried before a step is given up."""
EASIER, HARDER = 0.25, 6.0
"""Factors of the damping after a step that was taken, and after one that was not."""
LEAST_DAMPING = 1e-8
FARTHEST = 1e6
"""A pixel beyond this is of no image, though the loss be lower: queries around it would not be finite."""
SOLVED = 1e-4
"""Conjugate gradients end when the preconditioned residual's square is below this share of its initial value."""


def step(
    answers: Answers,
    fit: Fit,
    damping: float,
    box: tuple[float, float] | None,
    free_width: bool,
    iterations: int,
    expired: Callable[[], bool],
) -> tuple[Fit, float, int]:
    """Return the fit after a step, the next damping and the number of products with the derivative.

    Where no damping lowers the loss, the given fit is returned.

    Args:
        answers: what is to be explained.
        fit: where the step starts.
        damping: lambda, relative to the mean curvature of each image.
        box: the range of a pixel; None for any.
        free_width: whether log gamma moves too.
        iterations: largest number of conjugate-gradient iterations.
        expired: whether to stop at once.
    """
    slope, slope_width = fit.backward(fit.residual)
    free = torch.ones_like(slope, dtype=torch.bool)
    if box is not None:
        free = ~(((fit.points <= box[0]) & (slope > 0)) | ((fit.points >= box[1]) & (slope < 0)))
    right = _packed(-slope * free, -slope_width * free_width)
    mask = _packed(free.to(slope), slope.new_tensor(float(free_width)))
    curvature = _packed(*fit.curvature)
    level = _packed(fit.curvature[0].mean(1, keepdim=True).expand_as(slope), fit.curvature[1]).clamp_min(1e-300)
    shape, products = fit.points.shape, 0
    for _ in range(TRIES):
        shift, scale = damping * level, mask / (curvature + damping * level)

        def product(packed: Tensor, shift: Tensor = shift) -> Tensor:
            change = fit.forward(packed[:-1].reshape(shape), packed[-1])
            return (_packed(*fit.backward(change)) + shift * packed) * mask

        move, used = _conjugate_gradients(product, scale, right, iterations, expired)
        products += used
        points = fit.points + move[:-1].reshape(shape)
        moved = Fit(answers, points if box is None else points.clamp(*box), fit.log_gamma + move[-1])
        if moved.loss < fit.loss and bool(moved.points.abs().max() < FARTHEST):
            return moved, max(damping * EASIER, LEAST_DAMPING), products
        damping *= HARDER
        if expired():
            break
    return fit, damping, products


def _conjugate_gradients(
    product: Callable[[Tensor], Tensor], scale: Tensor, right: Tensor, iterations: int, expired: Callable[[], bool]
) -> tuple[Tensor, int]:
    """Return the solution of product(x) = right, preconditioned by the diagonal `scale`, and the products taken."""
    solution, left = torch.zeros_like(right), right
    towards = scaled = scale * left
    size = first = left @ scaled
    for iteration in range(iterations):
        if bool(size <= SOLVED * first) or expired():
            return solution, iteration
        image = product(towards)
        length = size / (towards @ image)
        solution, left = solution + length * towards, left - length * image
        scaled = scale * left
        before, size = size, left @ scaled
        towards = scaled + size / before * towards
    return solution, iterations


def _packed(points: Tensor, width: Tensor) -> Tensor:
    """Return (m, d) and () as one vector (m d + 1,)."""
    return torch.cat([points.flatten(), width.reshape(1)])
