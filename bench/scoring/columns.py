"""Rows of a table beside the rows that they may reconstruct: which of their columns are right.

Everywhere rows are (., 1, 1, d), each column scaled to fill [0, 1]; n counts training rows and m candidates.
"""

from __future__ import annotations

import torch
from torch import Tensor

TOLERANCE = 0.319
"""Standard deviations of its column by which a number may be off and still be right (Vero et al. 2023, TabLeak).

It is the default of `create_tolerance_map` in the authors' code (eth-sri/tableak, datasets/base_dataset.py). Of a
Gaussian column the mean is right for one record in four."""
_CHUNK = 256
"""Candidates compared at once: it bounds the memory, and changes no number."""


def right_columns(rows: Tensor, references: Tensor, deviation: Tensor) -> Tensor:
    """Return the share of columns that are right, in [0, 1], float64; columns without variation are not counted.

    Args:
        rows: (k, 1, 1, d), reconstructions; one that is not finite has no column right.
        references: broadcasts to (k, 1, 1, d), what they reconstruct.
        deviation: (1, 1, d), the standard deviation of each column over the training rows.

    Returns:
        (k,); 0 where no column varies.

    Source:
        Vero, Balunovic, Dimitrov, Vechev 2023, *TabLeak*, Section 5: the reconstruction accuracy.
    """
    counted = (deviation > 0).flatten()
    off = (rows - references).abs().flatten(1)
    right = (off <= TOLERANCE * deviation.flatten()) & counted
    return right.double().sum(1) / max(int(counted.sum()), 1)


def wrong_columns(references: Tensor, rows: Tensor, deviation: Tensor) -> Tensor:
    """Return the share of columns that are wrong (n, m) of each candidate beside each training row.

    It is infinite for candidates that are not finite.

    Args:
        references: (n, 1, 1, d), the training rows.
        rows: (m, 1, 1, d), the candidates.
        deviation: (1, 1, d), the standard deviation of each column over the training rows.
    """
    wrong = torch.full((len(references), len(rows)), torch.inf, dtype=torch.float64)
    for first in range(0, len(rows), _CHUNK):
        part = rows[first : first + _CHUNK]
        usable = part.isfinite().flatten(1).all(1)
        for place, reference in enumerate(references):
            share = 1 - right_columns(part, reference, deviation)
            wrong[place, first : first + _CHUNK] = share.where(usable, torch.inf)
    return wrong
