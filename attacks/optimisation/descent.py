"""Minimisation of a function of many images, given its gradient: L-BFGS or gradient descent with momentum."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from victims.training.lbfgs import lbfgs

MOMENTUM = 0.9


def descend(
    evaluate: Callable[[Tensor], tuple[float, Tensor]],
    start: Tensor,
    optimizer: str,
    steps: int,
    lr: float,
    report: Callable[[int, float], None],
    expired: Callable[[int], bool] = lambda step: False,
) -> tuple[Tensor, float]:
    """Return the best point (p,) of all that were evaluated, and its value.

    Args:
        evaluate: maps a point (p,) to its value and gradient (p,).
        start: (p,) float64.
        optimizer: "lbfgs" or "momentum".
        steps: number of iterations; "lbfgs" may evaluate twice as often, and ends early if it cannot go down.
        lr: learning rate of "momentum".
        report: called after every iteration with its number and the best value so far; by "lbfgs" also at the end.
        expired: called between iterations with their number; returns whether to end there.
    """
    best, least, step = start.clone(), math.inf, 0

    def keep(point: Tensor) -> tuple[float, Tensor]:
        nonlocal best, least
        value, gradient = evaluate(point)
        if value < least:
            best, least = point.clone(), value
        return value, gradient

    if optimizer == "momentum":
        point, velocity = start.clone(), torch.zeros_like(start)
        for step in range(1, steps + 1):
            if expired(step - 1):
                break
            _, gradient = keep(point)
            velocity = MOMENTUM * velocity - lr * gradient
            point = point + velocity
            report(step, least)
        keep(point)
        return best, least

    def done() -> bool:
        nonlocal step
        step += 1
        report(step, least)
        return step < steps and expired(step)

    lbfgs(keep, start, steps, done)
    report(step, least)
    return best, least
