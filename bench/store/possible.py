"""Which numbers a run can have, in a row of runs.csv and in a stored record, which would otherwise spoil a table."""

from __future__ import annotations

import math

from bench.store.good_images import decode
from bench.store.records import RunRecord

TYPES = {name: field.annotation for name, field in RunRecord.model_fields.items()}
WHOLE = tuple(name for name, kind in TYPES.items() if kind in (int, int | None) and name != "gain_over_null")
"""Columns of counts and seeds."""
FLOATS = tuple(name for name, kind in TYPES.items() if kind == float | None)
LARGEST = {"n": 10**7}
"""Largest values of columns that decide how much memory is taken."""
LARGEST_WHOLE = 2**62
SMALLEST = {"n": 1}
"""Smallest values of columns of a table that shares are taken of; 0 of the others."""
MASKS = ("good_images", "one_to_one_images", "null_images")
"""Columns that tell images, a bit each."""


def require_possible(record: RunRecord) -> None:
    """Check that every number is one that a run can have.

    Raises:
        ValueError: a number is infinite, a count is negative or too large, or the good images are not those of n.
    """
    for name in WHOLE:
        value = getattr(record, name)
        if value is not None and not 0 <= value <= LARGEST.get(name, LARGEST_WHOLE):
            raise ValueError(f"{name} is {value}")
    for name in FLOATS:
        value = getattr(record, name)
        if value is not None and math.isinf(value):
            raise ValueError(f"{name} is {value}")
    for name in MASKS:
        if mask := getattr(record, name):
            decode(mask, record.n)
