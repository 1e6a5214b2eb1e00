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

What is released may be the exponential moving average of the weights, of decay a a step (after Polyak and Juditsky
1992). It remembers as momentum does, so that of four such releases

    D_3 - (alpha + gamma) D_2 + alpha gamma D_1,    alpha = a^B,

has the gradients of 3 B - 2 steps. Of plain weights the least volume is where alpha is 0, which tells averages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, pairwise

import torch
from scipy.optimize import minimize
from torch import Tensor

from attacks.unknown_start.momentum import before_a_step, first_matrix
from victims.ordinary.difference import STATISTICS

NEURONS = 1024
"""Rows of the first fully connected layer, at most, that tell the shares and c: more tell the same."""
FEW = 256
"""Rows that tell them nearly."""
POLES = (0.0, 0.25, 0.5, 0.75, 0.95), (0.0, 0.5, 0.9)
"""Values of gamma from which the share of one difference is sought, and of alpha and gamma from which two are."""
BOUNDS = ((0.0, 1.0),), ((0.0, 2.0), (-1.0, 0.0))
"""Of the share of one difference, and of those of two; alpha and gamma are in those of one."""
MOST_DECAY = 2.0
"""The largest c, in units of the length of the last difference over that of W1."""
STEP, NARROW = (0.05, 0.02), (1e-3, 1e-3)
"""How far the shares and c are tried at first, and once they are nearly known."""
SHARPEST = 1e-7
"""How near they are sought: what is left of D_1 and W1 is to be below the rounding of the weights."""
FLAT = 1e-3
"""The search ends where the logarithm of the volume changes by less."""
REMEMBERED = 0.02
"""A smaller alpha gamma is that of plain weights: under Adam's noise it came to .002 in a trial."""

Weights = dict[str, Tensor]


def averaged(releases: Sequence[Weights]) -> bool:
    """Return whether four releases, as many steps apart, are averages of the weights: they then remember twice.

    alpha and gamma are sought in [0, 1], for what remembers nothing may add up its rounding with signs of its own. An
    average that forgets, as momentum does, before the next release is none here. The weights tell it where every step
    saw new views of images, fewer than there are neurons, and where gradients are not small beside weight decay.

    Args:
        releases: the weights by parameter name, in their order.
    """
    name = first_matrix(releases[-1])
    if not name:
        return False
    differences = _differences(releases, name)
    if not all(one.any() for one in differences):
        return False
    parts = _parts(differences, releases[-1][name].double())
    starts = ((*poles, 0.0) for poles in combinations_with_replacement(POLES[1], 2))
    found = min((_least(parts, FEW, start, STEP, _of_poles) for start in starts), key=lambda one: one[1])[0]
    if found[0] * found[1] > REMEMBERED:  # where there are more views than these rows, more rows may deny it
        found = _least(parts, NEURONS, found, NARROW, _of_poles)[0]
    return found[0] * found[1] > REMEMBERED


def without_past(releases: Sequence[Weights]) -> tuple[Weights | None, tuple[float, ...]]:
    """Return the weights a step before the last release, along what only the last steps added, and the shares.

    Of three releases the share is gamma; of four averaged ones they are alpha + gamma and -alpha gamma. The weights are
    None where the first fully connected layer stayed at last, or there is none. Running statistics are those of the
    last.

    Args:
        releases: three or four, as many steps apart, by parameter name, in their order.
    """
    last = releases[-1]
    name, learnt = first_matrix(last), [key for key in last if not key.endswith(STATISTICS)]
    if not name or torch.equal(releases[-2][name], last[name]):
        return None, (0.0,) * (len(releases) - 2)
    shares, decay = _shares(_differences(releases, name), last[name].double())
    steps = {key: _combined((-1.0, *shares), _differences(releases, key)) for key in learnt}
    steps[name] += decay * last[name]
    return before_a_step(last, steps), shares


def _differences(releases: Sequence[Weights], name: str) -> list[Tensor]:
    """Return by how much each two releases that follow one another differ in a parameter, the last two first."""
    return [after[name].double() - before[name].double() for before, after in pairwise(releases)][::-1]


def _combined(shares: Sequence[float], parts: Sequence[Tensor]) -> Tensor:
    return sum((share * part for share, part in zip(shares, parts, strict=True)), torch.zeros_like(parts[0]))


def _shares(differences: Sequence[Tensor], weight: Tensor) -> tuple[tuple[float, ...], float]:
    """Return the shares of the former differences (h, d), and c of W1, that leave the least volume of the latest.

    That is the product of its singular values, its length brought to 1.

    Args:
        differences: the latest first.
        weight: W1 (h, d).
    """
    parts = _parts(differences, weight)
    *found, decay = _least(parts, NEURONS, _nearly(parts), NARROW)[0]
    shares = (share if former.any() else 0.0 for share, former in zip(found, differences[1:], strict=True))
    return tuple(shares), decay * float(differences[0].norm() / weight.norm())


def _parts(differences: Sequence[Tensor], weight: Tensor) -> tuple[Tensor, ...]:
    """Return the differences and W1 at the length of the latest."""
    return (*differences, weight * (differences[0].norm() / weight.norm()))


def _nearly(parts: Sequence[Tensor]) -> list[float]:
    """Return the shares and c nearly, from few rows of the parts and several beginnings."""
    count = len(parts) - 2
    poles = combinations_with_replacement(POLES[count - 1], count)
    starts = [_of_poles((*each, 0.0)) if count == 2 else (*each, 0.0) for each in poles]
    return min((_least(parts, FEW, start, STEP) for start in starts), key=lambda one: one[1])[0]


def _of_poles(sought: Sequence[float]) -> tuple[float, float, float]:
    """Return the shares of two differences, and c, of alpha, gamma and c."""
    alpha, gamma, decay = sought
    return alpha + gamma, -alpha * gamma, decay


def _least(
    parts: Sequence[Tensor],
    most: int,
    start: Sequence[float],
    step: tuple[float, float],
    of_poles: Callable[[Sequence[float]], Sequence[float]] | None = None,
) -> tuple[list[float], float]:
    """Return the shares of the parts behind the first that leave the least volume of it, and the volume's logarithm.

    With `of_poles` it is not the shares that are sought and returned, but what this maps to them.

    Args:
        parts: the differences and W1 (h, d), the last at the length of the first.
        most: rows that are taken, or columns if there are fewer of these.
        start: the shares of the former differences and c from which they are sought.
        step: how far from there these are tried first, and how far c is.
        of_poles: from alpha, gamma and c, each of the former two in [0, 1], to the shares and c.
    """
    rows = [(one if one.shape[0] <= one.shape[1] else one.T)[:most] for one in parts]
    products = torch.stack([torch.stack([one @ other.T for other in rows]) for one in rows])
    least = torch.finfo(torch.float64).tiny

    def volume(shares: Sequence[float]) -> float:
        shares = shares if of_poles is None else of_poles(shares)
        weights = torch.tensor([1.0, *(-share for share in shares)]).to(products)
        squares = torch.linalg.eigvalsh(torch.einsum("i,j,ijhk->hk", weights, weights, products))
        return float((squares / squares.sum()).clamp_min(least).log().sum())

    own = BOUNDS[len(start) - 2] if of_poles is None else 2 * BOUNDS[0]
    bounds = (*own, (-MOST_DECAY, MOST_DECAY))
    simplex = [list(start)]
    for k, (_, high) in enumerate(bounds):
        size = step[1] if k == len(start) - 1 else step[0]
        moved = start[k] + size if start[k] < high - size else start[k] - size
        simplex.append([*start[:k], moved, *start[k + 1 :]])
    options = {"initial_simplex": simplex, "xatol": SHARPEST, "fatol": FLAT}
    found = minimize(volume, start, method="Nelder-Mead", bounds=bounds, options=options)
    return found.x.tolist(), float(found.fun)
