"""Where the images are: the row space of the first layer.

Gradient descent moves W1 only within the span of the training inputs, so with a small Gaussian initialisation of scale
s the singular values of W1 that belong to the data stand above s (sqrt(d) + sqrt(h)), the edge of the initialisation's
own spectrum (Marchenko-Pastur). Weight decay leaves nothing but the data's part of any initialisation, and below it
stands the rounding of the released weights. The attacker finds either gap in W1 alone and searches inside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

EDGE_SLACK = 1.1
SMALLEST_TAIL = 8
ROUNDING = 2.0**-24
"""Size, relative to ||W1||, of what rounding to float32 may leave outside the data's span."""


@dataclass(frozen=True)
class RowSpace:
    """The subspace in which candidates are searched.

    Attributes:
        basis: (d, r) orthonormal; the whole row space of the weight when no gap was found.
        singular: (r,) singular values of the weight along it, falling; of W1, ones when no gap was found.
        gap: whether the spectrum of the weight shows a gap, so that 0 < r < min(h, d) directions belong to the data.
    """

    basis: Tensor
    singular: Tensor
    gap: bool

    @property
    def rank(self) -> int:
        """The number of directions, r."""
        return self.basis.shape[1]


def row_span(weight: Tensor) -> RowSpace:
    """Return the data's part of the row space of a weight (h, d), or all of it where no gap shows one."""
    _, singular, directions = torch.linalg.svd(weight.double(), full_matrices=False)
    rank = signal_rank(singular, *weight.shape)
    gap = 0 < rank < len(singular)
    rank = rank if gap else len(singular)
    return RowSpace(directions[:rank].T.to(weight).contiguous(), singular[:rank].to(weight), gap)


def row_space(first_weight: Tensor) -> RowSpace:
    """Return `row_span` of W1 (h, d), the sizes of its directions being of no account where no gap shows the data's.

    What lies outside the row space changes neither the network's output nor lowers the residual of layer 1. A network
    that has learnt nothing shows no direction at all, and is searched like one that shows all.
    """
    space = row_span(first_weight)
    return space if space.gap else replace(space, singular=torch.ones_like(space.singular))


def signal_rank(singular: Tensor, h: int, d: int) -> int:
    """Return the smallest r such that the singular values from r on look like a Gaussian matrix's.

    A (h - r) x (d - r) Gaussian matrix of scale s has singular values within s |sqrt(d - r) - sqrt(h - r)| and
    s (sqrt(d - r) + sqrt(h - r)); s is estimated from the tail's Frobenius norm. If no tail fits, it is the rank of the
    matrix as far as float32 shows it, min(h, d) for a matrix without a gap.

    Args:
        singular: (min(h, d),) singular values, falling.
        h: rows of the matrix.
        d: columns of the matrix.
    """
    tails = singular.square().flip(0).cumsum(0).flip(0).sqrt()
    shown = int((singular > ROUNDING * singular.norm()).sum())
    for rank in range(min(shown, len(singular) - SMALLEST_TAIL)):
        high, low = math.sqrt(h - rank) + math.sqrt(d - rank), abs(math.sqrt(h - rank) - math.sqrt(d - rank))
        scale = float(tails[rank]) / math.sqrt((h - rank) * (d - rank))
        fits_top = float(singular[rank]) <= EDGE_SLACK * scale * high
        fits_bottom = float(singular[-1]) >= scale * low / 2
        if fits_top and fits_bottom:
            return rank
    return shown
