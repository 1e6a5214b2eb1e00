"""The ranges in which an attack's parameters are searched; imports nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """The values that a parameter may take, ends included.

    Attributes:
        low: the smallest value.
        high: the largest value.
        log: whether values are drawn uniformly on a logarithmic scale.
    """

    low: float
    high: float
    log: bool = False
