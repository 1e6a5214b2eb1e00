"""The geometric way from one value to another, on which schedules go. Imports no torch."""

from __future__ import annotations


def geometric(ends: tuple[float, float], step: int, steps: int) -> float:
    """Return the value at `step` of `steps` on the geometric way from one end to the other: a (b / a)^(step / steps).

    Args:
        ends: (a, b), of one sign, neither 0.
        step: from 0, which gives a, to `steps`, which gives b.
        steps: at least 1.
    """
    start, end = ends
    value: float = start * (end / start) ** (step / steps)
    return value
