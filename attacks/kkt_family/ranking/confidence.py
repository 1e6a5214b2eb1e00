"""The confidence of an attack of the KKT family in each candidate, computed without a training image."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from victims.equations.row_space import CosineSpace, RowSpace

CHUNK = 4096
"""The number of candidates that are compared with those of one restart at a time, to bound the memory."""


def confidence(
    candidates: Tensor,
    sizes: Tensor,
    labels: Tensor | None,
    counts: Sequence[int],
    space: RowSpace | CosineSpace,
    power: float,
) -> Tensor:
    """Return the size of each candidate's term in the stationarity sum, times the other restarts' mean agreement.

    A candidate that stands for a training image carries a part of theta, so lambda_i ||z_i|| is large, and other
    restarts find it too. z are the coordinates of the search, in which fine directions weigh as much as coarse ones.

    Args:
        candidates: (m, d), the restarts one after another.
        sizes: (m,) the weight |lambda| of each.
        labels: (m,) the classes of the candidates, None if they have none.
        counts: the number of candidates of each restart; of one restart alone the sizes are the confidence.
        space: the subspace that was searched.
        power: coordinates along direction k are divided by the singular value S_k to this power.

    Returns:
        (m,) float32 >= 0.
    """
    coordinates = space.coordinates(candidates) / space.singular**power
    size: Tensor = sizes * coordinates.norm(dim=1)
    agreed: Tensor = size * agreement(coordinates, labels, counts) / max(len(counts) - 1, 1)
    return agreed.float()


def agreement(coordinates: Tensor, labels: Tensor | None, counts: Sequence[int]) -> Tensor:
    """Return how far the R - 1 other restarts agree on each candidate: (m,), from 0 to R - 1; 1 if there are none.

    It is the sum over the other restarts of the largest cosine with a candidate of the same label, 0 where that is
    negative. In pixels, the blurred images that every restart makes would agree best.

    Args:
        coordinates: (m, r) the candidates, the restarts one after another.
        labels: (m,) the classes of the candidates, None if they have none.
        counts: the number of candidates of each restart.
    """
    if len(counts) == 1:
        return torch.ones_like(coordinates[:, 0])
    directions = F.normalize(coordinates, dim=1)
    classes = torch.zeros(len(coordinates), device=coordinates.device) if labels is None else labels
    best = []
    for found, given in zip(directions.split(list(counts)), classes.split(list(counts)), strict=True):
        parts = zip(directions.split(CHUNK), classes.split(CHUNK), strict=True)
        cosines = ((part @ found.T).masked_fill(own[:, None] != given, 0) for part, own in parts)
        best.append(torch.cat([cosine.amax(1) for cosine in cosines]).clamp(min=0))
    agreed = torch.stack(best, 1)
    own = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts)).to(agreed.device)
    agreed[torch.arange(len(coordinates), device=agreed.device), own] = 0
    return agreed.sum(1)
