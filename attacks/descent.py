"""Minimising a function of many images, given its gradient: L-BFGS or gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import OptimizeResult, minimize
from torch import Tensor

MOMENTUM = 0.9
HISTORY = 10


def descend(
    evaluate: Callable[[Tensor], tuple[float, Tensor]],
    start: Tensor,
    optimizer: str,
    steps: int,
    lr: float,
    report: Callable[[int, float], None],
) -> tuple[Tensor, float]:
    """Return the best point met and its value.

    Args:
        evaluate: point (p,) to its value and gradient (p,).
        start: (p,) float64.
        optimizer: "lbfgs" (scipy's) or "momentum".
        steps: iterations; "lbfgs" may evaluate twice as often, and ends early where it cannot go down.
        lr: step of "momentum".
        report: called after every iteration with its number and the best value so far.
    """
    best, least, step = start.clone(), np.inf, 0

    def keep(point: Tensor) -> tuple[float, Tensor]:
        nonlocal best, least
        value, gradient = evaluate(point)
        if value < least:
            best, least = point.clone(), value
        return value, gradient

    if optimizer == "momentum":
        point, velocity = start.clone(), torch.zeros_like(start)
        for step in range(1, steps + 1):
            _, gradient = keep(point)
            velocity = MOMENTUM * velocity - lr * gradient
            point = point + velocity
            report(step, least)
        keep(point)
        return best, least

    def as_arrays(values: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = keep(torch.from_numpy(values).to(start))
        return value, gradient.cpu().numpy()

    def count(intermediate_result: OptimizeResult) -> None:
        nonlocal step
        step += 1
        report(step, least)

    options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": HISTORY, "ftol": 0.0, "gtol": 0.0}
    minimize(as_arrays, start.cpu().numpy(), jac=True, method="L-BFGS-B", callback=count, options=options)
    report(steps, least)
    return best, least
