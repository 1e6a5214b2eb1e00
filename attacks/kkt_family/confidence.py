"""The confidence of an attack of the KKT family in each candidate, computed without a training image."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from victims.equations.row_space import RowSpace

CHUNK = 4096
"""The number of candidates that are compared with those of one restart at a time, to bound the memory."""


def confidence(
    candidates: Tensor, sizes: Tensor, labels: Tensor | None, restarts: int, space: RowSpace, power: float
) -> Tensor:
    """Return the size of each candidate's term in the stationarity sum, times the agreement of the other restarts.

    A candidate that stands for a training image carries a part of theta, so lambda_i ||z_i|| is large. Other restarts
    find it too: their most similar candidates of the same label have a large cosine with z_i on average. z are the
    coordinates of the search, in which fine directions weigh as much as coarse ones. In pixels, the blurred images that
    every restart makes would agree best.

    Args:
        candidates: (m, d), the restarts one after another, equally many each.
        sizes: (m,) the weight |lambda| of each.
        labels: (m,) the classes of the candidates, None if they have none.
        restarts: the number of restarts; one alone has no agreement, and its sizes are the confidence.
        space: the subspace that was searched.
        power: coordinates along direction k are divided by the singular value S_k to this power.

    Returns:
        (m,) float32 >= 0.
    """
    coordinates = candidates @ space.basis / space.singular**power
    size: Tensor = sizes * coordinates.norm(dim=1)
    if restarts == 1:
        return size.float()
    directions = F.normalize(coordinates, dim=1)
    classes = torch.zeros(len(candidates), device=candidates.device) if labels is None else labels
    best = []
    for found, given in zip(directions.chunk(restarts), classes.chunk(restarts), strict=True):
        parts = zip(directions.split(CHUNK), classes.split(CHUNK), strict=True)
        cosines = ((part @ found.T).masked_fill(own[:, None] != given, 0) for part, own in parts)
        best.append(torch.cat([cosine.amax(1) for cosine in cosines]).clamp(min=0))
    agreement = torch.stack(best, 1)
    own = torch.arange(restarts, device=agreement.device).repeat_interleave(len(candidates) // restarts)
    agreement[torch.arange(len(candidates), device=agreement.device), own] = 0
    agreed: Tensor = size * agreement.sum(1) / (restarts - 1)
    return agreed.float()
