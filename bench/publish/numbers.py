"""How numbers are written for people: counts, gains, errors, durations, and what is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

MISSING = "–"
AT_MOST = "≤ "
ARROWS = {"higher": "↑", "lower": "↓"}
ONE_TRAINING = "the noise of images and seeds alone, though trainings of a network vary more"
"""What the interval of one training holds; `COVERAGE`: what that of two or three does not."""
COVERAGE = (
    "Where trainings vary more than images do, an interval of two holds the truth in 83% to 88% of simulated cases, "
    "one of three in 89% to 90%."
)
ROW_BY_ROW = (
    "Each row is tested by itself, at 2.5% on one side: of a hundred rows without an effect two or three would pass."
)
"""What is said of the criterion that an attack beats its null controls."""


def count(value: float) -> str:
    """Return an average of counts: at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def whole(value: float) -> str:
    """Return an end of an interval of counts."""
    return f"{round(value)}".replace("-", "−")


def signed(value: float) -> str:
    """Return a difference of counts with its sign."""
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{count(abs(value))}"


def fraction(value: float) -> str:
    """Return a score with three decimals."""
    return f"{value:.3f}".replace("-", "−")


def small(value: float) -> str:
    """Return an error with two digits."""
    return f"{value:.2g}".replace("-", "−")


def duration(seconds: float) -> str:
    """Return seconds as people say them."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def took(row: Mapping[Any, Any]) -> str:
    """Return the time of a leaderboard's row, "≤" before it where all its runs shared the machine."""
    seconds = number(row, "wall_s")
    if math.isnan(seconds):
        return MISSING
    alone = number(row, "seeds") - number(row, "failed") > number(row, "overlapped")
    return f"{'' if alone else AT_MOST}{duration(seconds)}"


def processor(name: str) -> str:
    """Return a processor's name as people say it: runs store "(1 cores)", which identifies them and so stays."""
    return name.replace("(1 cores)", "(1 core)")


def number(row: Mapping[Any, Any], name: str) -> float:
    """Return a cell as a number, NaN for what is empty or not there."""
    value = row.get(name)
    return math.nan if value is None else float(value)


def written(row: Mapping[Any, Any], name: str, write: Callable[[float], str]) -> str:
    """Return a cell's number as text."""
    value = number(row, name)
    return MISSING if math.isnan(value) else write(value)
