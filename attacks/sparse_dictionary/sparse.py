"""Sparse vectors in a subspace: unit z at which ||Q z||_1 has a local minimum, for Q (p, r) with orthonormal columns.

The differences are Y = Q R = U X with sparse codes U (p, n) and atoms X (n, r). A column of U is Y times a dual vector
of the atoms, so the columns of U are sparse vectors in the span of Q, and where they are sparse enough they are local
minima (Spielman, Wang & Wright 2012). Their starts are rows of Q, each of which is a sum of few of the duals (there,
Section 4), and the descent is by subgradients on the sphere (Bai, Jiang & Sun 2019).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from victims.recipes.geometric import geometric

LAST = 1e-4
"""Length of the last step on the unit sphere, to which the steps fall geometrically."""
ALIKE = 0.9
"""Cosine from which on two vectors count as the same."""
INDEPENDENT = 0.4
"""A unit vector counts as independent of others if more than this share of its length is outside their span."""


def descend(basis: Tensor, start: Tensor, steps: int, lr: float, stepped: Callable[[Tensor], bool]) -> Tensor:
    """Return unit vectors (r, m) at which the mean of |Q z| is small, one for each start.

    Args:
        basis: Q (p, r), orthonormal columns.
        start: (r, m), of any length but 0.
        steps: largest number of steps.
        lr: length of the first.
        stepped: called with z after each step; returns whether to stop.
    """
    found = _unit(start)
    for step in range(steps):
        slope = basis.T @ torch.sign(basis @ found)
        slope = slope - found * (slope * found).sum(0)
        found = _unit(found - geometric((lr, LAST), step, steps) * _unit(slope))
        if stepped(found):
            break
    return found


def sparsity(basis: Tensor, found: Tensor) -> Tensor:
    """Return the mean of |Q z| times sqrt(p), (m,): at most 1, and small where few entries are not 0."""
    size: Tensor = (basis @ found).abs().sum(0) / len(basis) ** 0.5
    return size


def distinct(found: Tensor, order: Tensor) -> Tensor:
    """Return the unit vectors (r, k) that no earlier one resembles, up to sign, sorted by `order` (m,).

    Args:
        found: (r, m) unit vectors.
        order: (m,) by which they are sorted, smallest first.
    """
    vectors = found[:, order.argsort()].cpu()
    alike = (vectors.T @ vectors).abs() > ALIKE
    kept, gone = list[int](), torch.zeros(vectors.shape[1], dtype=torch.bool)
    for place in range(vectors.shape[1]):
        if not gone[place]:
            kept.append(place)
            gone |= alike[place]
    return vectors[:, kept].to(found.device)


def independent(found: Tensor) -> Tensor:
    """Return the indices (k,) of the unit vectors (r, m) that do not almost lie in the span of those kept before."""
    vectors = found.cpu()
    span, kept = vectors.new_zeros(len(vectors), 0), list[int]()
    for place, vector in enumerate(vectors.T):
        outside = vector - span @ (span.T @ vector)
        if len(kept) < len(vectors) and outside.norm() > INDEPENDENT:
            span = torch.cat([span, _unit(outside)[:, None]], dim=1)
            kept.append(place)
    return torch.tensor(kept, device=found.device)


def _unit(vectors: Tensor) -> Tensor:
    lengths: Tensor = vectors.norm(dim=0)
    return vectors / lengths.clamp_min(torch.finfo(vectors.dtype).tiny)
