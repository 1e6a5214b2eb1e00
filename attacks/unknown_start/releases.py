"""Weights that were released on the way, in the place of a start: what the training added between them.

By how much two releases differ is the sum of all steps between them, D = -lr sum_t m_t. SGD's m_t = beta m_(t-1) + g_t
(Polyak 1964) remembers gradients of long before, and so does Adam's, whose steps are scaled entry by entry besides
(Kingma and Ba 2015). Of three releases, each B steps after the one before, m_(t+B) = beta^B m_t + sum_j beta^(B-j)
g_(t+j) leaves

    D_2 - gamma D_1 = -lr sum_(i=1..B) sum_(j=1..B) beta^(B-j) g_(i+j) + c W1,    gamma = beta^B.

g_1 is the gradient of the first step. The right side has the gradients of the 2 B - 1 steps after it and of no other,
so it has as many directions as these have images; c W1 is what weight decay adds. Where every step saw new views of
images, every other gamma or c leaves more directions. At the right ones the rest of them hold noise alone. So gamma and
c are those by which D_2 - gamma D_1 - c W1, brought to length 1, has the least volume: product of singular values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from scipy.optimize import minimize
from torch import Tensor

from attacks.unknown_start.momentum import before_a_step, first_matrix
from victims.ordinary.difference import STATISTICS

NEURONS = 1024
"""Rows of the first fully connected layer, at most, that tell gamma and c: more tell the same."""
FEW = 256
"""Rows that tell them nearly."""
STARTS = 0.0, 0.25, 0.5, 0.75, 0.95
"""Values of gamma from which they are sought."""
MOST_DECAY = 2.0
"""The largest c, in units of the length of D_2 over that of W1."""
STEP, NARROW = (0.05, 0.02), (1e-3, 1e-3)
"""How far gamma and c are tried at first, and once they are nearly known."""
SHARPEST = 1e-7
"""How near they are sought: what is left of D_1 and W1 is to be below the rounding of the weights."""
FLAT = 1e-3
"""The search ends where the logarithm of the volume changes by less."""

Weights = dict[str, Tensor]


def without_momentum(first: Weights, second: Weights, last: Mapping[str, Tensor]) -> tuple[Weights | None, float]:
    """Return the weights a step before the last release, along D_2 - gamma D_1, and gamma.

    In the first fully connected layer it is along D_2 - gamma D_1 - c W1. The weights are None where that layer stayed
    at last, or there is none. Running statistics are those of the last.

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
    gamma, decay = _shares(former[name], latter[name], last[name].double())
    steps = {key: gamma * former[key] - latter[key] for key in learnt}
    steps[name] += decay * last[name]
    return before_a_step(last, steps), gamma


def _shares(former: Tensor, latter: Tensor, weight: Tensor) -> tuple[float, float]:
    """Return gamma in [0, 1] and c of which latter - gamma former - c weight (h, d) has the least volume.

    That is the product of its singular values, its length brought to 1.
    """
    scale = float(latter.norm() / weight.norm())
    parts = latter, former, weight * scale
    found = min((_least(parts, FEW, (start, 0.0), STEP) for start in STARTS), key=lambda one: one[1])[0]
    gamma, decay = _least(parts, NEURONS, found, NARROW)[0]
    return (gamma if former.any() else 0.0), decay * scale


def _least(
    parts: Sequence[Tensor], most: int, start: tuple[float, float], step: tuple[float, float]
) -> tuple[tuple[float, float], float]:
    """Return gamma and c, as shares of the second and the third part, and the logarithm of the volume that they leave.

    Args:
        parts: D_2, D_1 and W1 (h, d), the last at the length of the first.
        most: rows that are taken, or columns if there are fewer of these.
        start: gamma and c from which they are sought.
        step: how far from there they are tried first.
    """
    rows = [(one if one.shape[0] <= one.shape[1] else one.T)[:most] for one in parts]
    products = torch.stack([torch.stack([one @ other.T for other in rows]) for one in rows])
    least = torch.finfo(torch.float64).tiny

    def volume(shares: Sequence[float]) -> float:
        weights = torch.tensor([1.0, -shares[0], -shares[1]]).to(products)
        squares = torch.linalg.eigvalsh(torch.einsum("i,j,ijhk->hk", weights, weights, products))
        return float((squares / squares.sum()).clamp_min(least).log().sum())

    gamma, decay = start
    simplex = [start, (gamma + step[0] if gamma < 1 - step[0] else gamma - step[0], decay), (gamma, decay + step[1])]
    options = {"initial_simplex": simplex, "xatol": SHARPEST, "fatol": FLAT}
    bounds = (0, 1), (-MOST_DECAY, MOST_DECAY)
    found = minimize(volume, start, method="Nelder-Mead", bounds=bounds, options=options)
    return (float(found.x[0]), float(found.x[1])), float(found.fun)
