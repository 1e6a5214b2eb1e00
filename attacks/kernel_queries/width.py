"""The width of a kernel and the intercept, read off the answers far away from all images.

Along a ray z = t u the answer is b + sum_i A_i exp(-gamma ||t u - x_i||) -> b + exp(-gamma t) times a constant, so the
logarithm of |f - b| falls with the slope -gamma; for a Gaussian kernel it is a parabola with the curvature -2 gamma.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from victims.kernel.spec import Kernel

RAYS, STEPS = 8, 3
"""Rays, and queries on each."""
HALVINGS = 8
"""How often the rays are halved where their answers are lost in rounding."""
FAR = 1e4
"""The length at which only the intercept is answered, in diagonals of the box of images."""
SMALLEST = 1e-9
"""A value below this share of the largest answer counts as lost in rounding."""


def read_width(
    ask: Callable[[Tensor], Tensor],
    sums: Callable[[Tensor], Tensor],
    kernel: Kernel,
    size: int,
    span: float,
    generator: torch.Generator,
) -> float:
    """Return the inverse width gamma; where the answers do not show it, 1 / span (Laplace) or 1 / span^2 (Gaussian).

    Args:
        ask: returns the answers (q, C) to queries (q, d).
        sums: returns the values (q, C), linear in the kernels, of answers (q, C).
        kernel: the family.
        size: d.
        span: the length of the diagonal of the box that images lie in.
        generator: draws the rays.
    """
    rays = torch.randn(RAYS, size, generator=generator, dtype=torch.float64)
    rays = rays / rays.norm(dim=1, keepdim=True)
    far = ask(FAR * span * rays[:1])
    guess = 1 / span if kernel == "laplace" else 1 / span**2
    lengths = span * torch.linspace(2, 3, STEPS, dtype=torch.float64)
    for _ in range(HALVINGS):
        values = sums(torch.cat([far, ask((lengths[:, None, None] * rays[None]).flatten(0, 1))]))
        found = _slopes(kernel, lengths, values[1:], values[:1])
        if len(found):
            guess = float(found.median())
            break
        lengths = lengths / 2
    return guess


def _slopes(kernel: Kernel, lengths: Tensor, values: Tensor, far: Tensor) -> Tensor:
    """Return the estimates of gamma of all rays and outputs where values are above the rounding of the largest.

    Args:
        kernel: the family.
        lengths: (s,) lengths of the queries on each ray.
        values: (s r, C) the values at the queries, ordered by length.
        far: (1, C) the intercept.
    """
    values = values - far
    logs = values.abs().reshape(len(lengths), -1).clamp_min(1e-300).log()
    seen = logs.exp().amin(0) > SMALLEST * max(float(values.abs().max()), float(far.abs().max()))
    steps = float(lengths[1] - lengths[0])
    if kernel == "laplace":
        slopes = -(logs[-1] - logs[-2]) / steps
    else:
        slopes = -(logs[-1] - 2 * logs[-2] + logs[-3]) / (2 * steps**2)
    return slopes[seen & (slopes > 0)]
