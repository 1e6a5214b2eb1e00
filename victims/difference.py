"""What a training has added to its start: the decay of the start, and the span of the training images.

Gradient descent on a fully connected network changes W1 by sum_i D_i x_i', a matrix of rank n whose rows lie in the
span of the n training images; weight decay shrinks the start by a factor c besides. So W1 - c W1(0) has rank n, up to
the rounding of the weights, for any order of the batches, any momentum and any schedule. Optimisers that scale the
entries of a gradient each by its own factor, as Adam does, break the sum, and the difference has full rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

GAP = 5.0
"""A singular value so many times the next one ends the span of the images."""
ROUNDS = 20
WIDEST = 0.95
"""Share of the singular values among which the gap is looked for: the last ones of a full matrix spread."""
SETTLED = 1e-9


@dataclass(frozen=True)
class Difference:
    """W1 - c W1(0), and what it shows.

    Attributes:
        decay: c, what is left of the start; 1 without weight decay.
        singular: (min(h, d),) its singular values, falling.
        directions: (min(h, d), d) its right singular vectors, one a row.
        rank: directions before the gap, min(h, d) where there is none.
        gap: the singular value before the gap over the one after it; 1 where there is none.
        kinship: cosine of W1 and W1(0) outside of the span; near 0 where the one did not start at the other.
    """

    decay: float
    singular: Tensor
    directions: Tensor
    rank: int
    gap: float
    kinship: float

    @property
    def shows_images(self) -> bool:
        """Whether a gap ends the span of the images."""
        return self.gap > 1

    def basis(self, rank: int) -> Tensor:
        """Return the first directions (d, rank), orthonormal columns."""
        return self.directions[:rank].T.contiguous()


def difference(end: Tensor, start: Tensor) -> Difference:
    """Return what a training has added to the first layer of its start.

    c is found by turns: the span is that of W1 - c W1(0), and c is the least-squares fit of W1 on W1(0) outside of it.

    Args:
        end: W1 (h, d), as released.
        start: W1(0) (h, d).
    """
    last, first = end.double(), start.double()
    decay = 1.0
    for _ in range(ROUNDS):
        _, singular, directions = torch.linalg.svd(last - decay * first, full_matrices=False)
        rank, gap = largest_gap(singular)
        span = directions[: rank if gap > 1 else len(singular) // 2]
        outside, rest = first - first @ span.T @ span, last - last @ span.T @ span
        fitted = float((outside * rest).sum() / outside.square().sum())
        settled, decay = abs(fitted - decay) < SETTLED, fitted
        if settled:
            break
    kinship = float((outside * rest).sum() / (outside.norm() * rest.norm()).clamp_min(1e-300))
    return Difference(decay, singular, directions, rank, gap, kinship)


def largest_gap(singular: Tensor) -> tuple[int, float]:
    """Return after how many of the singular values the largest gap is, and its ratio; all of them and 1 without one."""
    looked = max(1, int(WIDEST * len(singular)))
    ratios = singular[:-1] / singular[1:].clamp_min(torch.finfo(singular.dtype).tiny)
    if len(ratios) == 0 or float(singular[0]) == 0:
        return len(singular), 1.0
    rank = int(ratios[:looked].argmax()) + 1
    gap = float(ratios[rank - 1])
    return (rank, gap) if gap >= GAP else (len(singular), 1.0)
