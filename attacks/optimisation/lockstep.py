"""Many bounded minimisations by scipy's L-BFGS-B at once, with one batch of evaluations a round."""

from __future__ import annotations

import math
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

import numpy as np
from scipy.optimize import minimize

Evaluate = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Maps indices of problems (j,), ascending, and their points (j, d) to values (j,) and gradients (j, d)."""


def minimise_in_lockstep(
    evaluate: Evaluate,
    starts: np.ndarray,
    evaluations: int,
    expired: Callable[[int], bool] = lambda count: False,
) -> tuple[np.ndarray, int]:
    """Return the minima of k functions over [0, 1]^d, each found by its own L-BFGS-B in its own thread.

    A round evaluates every problem that has not ended; the result does not depend on the threads' timing.

    Args:
        evaluate: returns values and gradients of some of the problems.
        starts: (k, d) float64.
        evaluations: the largest number of rounds.
        expired: called after every round with the number of evaluations of all problems; returns whether to end there.

    Returns:
        The points (k, d) where the minimisations ended, or the best so far of those that `expired` ended, and the
        number of evaluations of all problems.
    """
    asked: SimpleQueue[tuple[int, np.ndarray | None]] = SimpleQueue()
    answers: list[SimpleQueue[tuple[float, np.ndarray] | None]] = [SimpleQueue() for _ in starts]
    ended, count = starts.copy(), 0

    def work(problem: int) -> None:
        best, scale = math.inf, 0.0  # the objective is 1 at the start: the solver's tolerances are absolute

        def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best, scale
            asked.put((problem, point.copy()))
            answer = answers[problem].get()
            if answer is None:
                raise InterruptedError
            if answer[0] < best:
                best, ended[problem] = answer[0], point
            scale = scale or 1 / max(answer[0], 1e-30)
            return answer[0] * scale, answer[1] * scale

        try:
            ended[problem] = minimize(
                objective,
                starts[problem],
                jac=True,
                method="L-BFGS-B",
                bounds=[(0.0, 1.0)] * starts.shape[1],
                options={"maxfun": evaluations, "maxiter": evaluations, "maxcor": 30, "ftol": 1e-9, "gtol": 1e-9},
            ).x
        except InterruptedError:
            return
        finally:
            asked.put((problem, None))

    threads = [Thread(target=work, args=(problem,), daemon=True) for problem in range(len(starts))]
    for thread in threads:
        thread.start()
    running = set(range(len(starts)))
    try:
        while running:
            waiting: dict[int, np.ndarray] = {}
            while len(waiting) < len(running):
                problem, point = asked.get()
                if point is None:
                    running.discard(problem)
                else:
                    waiting[problem] = point
            if waiting:
                problems = sorted(waiting)
                values, gradients = evaluate(np.array(problems), np.stack([waiting[one] for one in problems]))
                count += len(problems)
                for one, value, gradient in zip(problems, values, gradients, strict=True):
                    answers[one].put((float(value), gradient))
                if expired(count):
                    break
    finally:
        for answer in answers:
            answer.put(None)
        for thread in threads:
            thread.join()
    return ended, count
