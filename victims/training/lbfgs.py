"""L-BFGS by scipy, on tensors; float64, as scipy computes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from scipy.optimize import minimize
from torch import Tensor

HISTORY = 20
REPORT_SECONDS = 0.5


class Iterations:
    """Counts iterations, and calls `report` with their number about twice a second."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self.done, self._report, self._reported = 0, report, time.monotonic()

    def another(self) -> None:
        """Count one."""
        self.done += 1
        if time.monotonic() - self._reported > REPORT_SECONDS:
            self._reported = time.monotonic()
            self._report(self.done)


def lbfgs(
    evaluate: Callable[[Tensor], tuple[float, Tensor]], start: Tensor, steps: int, done: Callable[[], bool]
) -> Tensor:
    """Return the point (p,) where L-BFGS ends: when `done`, after `steps` iterations, or if it cannot go down.

    Args:
        evaluate: maps a point (p,) to its value and gradient (p,).
        start: (p,) float64, on any device.
        steps: largest number of iterations; there may be twice as many evaluations.
        done: called after every iteration, whose result is the last evaluation; returns whether to end there.
    """

    def as_arrays(values: Any) -> tuple[float, Any]:
        value, gradient = evaluate(torch.from_numpy(values).to(start))
        return value, gradient.cpu().numpy()

    def check(intermediate_result: Any) -> None:
        if done():
            raise StopIteration

    options: Any = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": HISTORY, "ftol": 0.0, "gtol": 0.0}
    begin = start.detach().cpu().numpy()
    found = minimize(as_arrays, begin, jac=True, method="L-BFGS-B", callback=check, options=options)
    return torch.from_numpy(found.x).to(start)
