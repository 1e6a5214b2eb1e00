"""Weights that were released on the way, in the place of a start: what the training added between them.

By how much two releases differ is the sum of all steps between them, D = -lr sum_t m_t. SGD's m_t = beta m_(t-1) + g_t
(Polyak 1964) remembers gradients of long before, and so does Adam's, whose steps are scaled entry by entry besides
(Kingma and Ba 2015). Of three releases, each B steps after the one before, m_(t+B) = beta^B m_t + sum_j beta^(B-j)
g_(t+j) leaves

    D_2 - gamma D_1 = -lr sum_(i=1..B) sum_(j=1..B) beta^(B-j) g_(i+j),    gamma = beta^B,

with g_1 the gradient of the first step: those of the 2 B - 1 steps after it and of no other, so that it has as many
directions as these have images, and W1's own where decay is in the gradient. Where every step saw new views of images
every other gamma leaves more, and noise fills fewer directions of length 1 then. So the difference of the least volume
for its length tells gamma.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from attacks.unknown_start.momentum import before_a_step, first_matrix
from victims.ordinary.difference import STATISTICS

NEURONS = 1024
"""Rows of the first fully connected layer, at most, that tell gamma: more tell the same."""
GRID = 25
"""So many values of gamma in [0, 1) are tried before it is sought around the best: several may be better than those
beside them."""

MOST = 0.99
"""A larger gamma is that of decay, which makes a difference of full rank as no image does."""
SHARPEST = 1e-7
"""How near gamma is sought: what is left of the first difference is to be below the rounding of the weights."""

Weights = dict[str, Tensor]


def without_momentum(first: Weights, second: Weights, last: Mapping[str, Tensor]) -> tuple[Weights | None, float]:
    """Return the weights a step before the last release, along D_2 - gamma D_1, and gamma.

    The weights are None where the first fully connected layer stayed at last, or there is none, or where gamma is so
    near to 1 that it is no momentum: what weight decay adds is nearly the same each time, and hides it where gradients
    are small. Running statistics are those of the last.

    Args:
        first: the first of three releases, as many steps apart, by parameter name.
        second: the second.
        last: the third.
    """
    name, learnt = first_matrix(last), [key for key in last if not key.endswith(STATISTICS)]
    if not name or torch.equal(second[name], last[name]):
        return None, 0.0
    former, latter = (
        {key: one[key].double() - other[key].double() for key in learnt}
        for one, other in ((second, first), (last, second))
    )
    gamma = _remembered(former[name], latter[name])
    if gamma > MOST:
        return None, gamma
    return before_a_step(last, {key: gamma * former[key] - latter[key] for key in learnt}), gamma


def _remembered(former: Tensor, latter: Tensor) -> float:
    """Return gamma in [0, 1] of which latter - gamma former (h, d), brought to length 1, has the least volume.

    That is the product of its singular values.
    """
    rows = [one[:NEURONS] if one.shape[0] <= one.shape[1] else one.T[:NEURONS] for one in (former, latter)]
    own, cross, other = rows[1] @ rows[1].T, rows[1] @ rows[0].T, rows[0] @ rows[0].T
    cross, least = cross + cross.T, torch.finfo(torch.float64).tiny

    def volume(gamma: float) -> float:
        squares = torch.linalg.eigvalsh(own - gamma * cross + gamma**2 * other)
        return float((squares / squares.sum()).clamp_min(least).log().sum())

    if not former.any():
        return 0.0
    best = min((index / GRID for index in range(GRID)), key=volume)
    around = max(best - 1 / GRID, 0.0), min(best + 1 / GRID, 1.0)
    found: float = minimize_scalar(volume, bounds=around, method="bounded", options={"xatol": SHARPEST}).x
    return min(best, found, key=volume)
