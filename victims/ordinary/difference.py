"""What a training has added to its start: the decay of the start, and the span of the training images.

Gradient descent on a fully connected network changes W1 by sum_i D_i x_i', a matrix of rank n whose rows lie in the
span of the n training images; weight decay shrinks the start by a factor c besides. So W1 - c W1(0) has rank n, up to
the rounding of the weights, for any order of the batches, any momentum and any schedule. Optimisers that scale the
entries of a gradient each by its own factor, as Adam does, break the sum, and the difference has full rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from scipy.integrate import quad
from scipy.optimize import brentq
from torch import Tensor

from victims.equations.network import layer_weights

GAP = 5.0
"""A singular value this many times the next one is a gap; the last gap above the rounding ends the images' span."""
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
"""Suffixes of the names of batch normalisation's running statistics, which are released but are no weights."""
ROUNDS = 20
"""The most turns in which span and c are found."""
WIDEST = 0.95
"""Share of the singular values among which the gap is looked for: the last ones of a full matrix spread."""
SETTLED = 1e-9
"""A turn that moves c by less than this is the last."""
TINY = 1e-300
"""In the place of a norm that is zero."""
GRAM = 1e-7
"""Singular values, relative to the largest, that a Gram matrix in float64 still shows."""


@dataclass(frozen=True)
class Difference:
    """W1 - c W1(0), and what it shows.

    Attributes:
        decay: c, what is left of the start; 1 without weight decay, and where the start is zero.
        singular: (min(h, d),) its singular values, falling.
        directions: (min(h, d), d) its right singular vectors, one a row.
        rank: directions before the gap, min(h, d) where there is none.
        gap: the singular value before the gap over the one after it; 1 where there is none.
        cosine: of W1 and W1(0) outside of the span, in [-1, 1]; near 0 where W1(0) is not the start of W1, 1 where it
            is zero.
        neurons: h.
    """

    decay: float
    singular: Tensor
    directions: Tensor
    rank: int
    gap: float
    cosine: float
    neurons: int

    @property
    def shows_images(self) -> bool:
        """Whether a gap ends the span of the images."""
        return self.gap > 1

    @property
    def above_noise(self) -> int:
        """The number of singular values above the edge of noise of equal size in all entries, at least 1.

        Of rounded or noised weights only these directions show images, and no gap ends them. The size of the noise is
        read off the median (Gavish and Donoho 2014, Section III), its edge is known (Marchenko and Pastur 1967).
        """
        ratio = len(self.singular) / max(self.neurons, self.directions.shape[1])
        edge = float(self.singular.median()) * (1 + math.sqrt(ratio)) / math.sqrt(_noise_median(ratio))
        return max(1, int((self.singular > edge).sum()))

    def holding(self, share: float) -> int:
        """Return the number of directions, from the first on, that hold a share in [0, 1] of the squares."""
        held = self.singular.square().cumsum(0)
        return int((held < share * held[-1]).sum()) + 1

    def basis(self, rank: int) -> Tensor:
        """Return the first directions (d, rank), orthonormal columns."""
        return self.directions[:rank].T.contiguous()


def difference(end: Tensor, start: Tensor) -> Difference:
    """Return what a training has added to the first layer of its start.

    Args:
        end: W1 (h, d), as released.
        start: W1(0) (h, d).
    """
    last, first = end.double(), start.double()
    rounding = rounding_of(end)
    decay, cosine = _left_of(first, last, rounding) if first.any() else (1.0, 1.0)
    _, singular, directions = torch.linalg.svd(last - decay * first, full_matrices=False)
    return Difference(decay, singular, directions, *last_gap(singular, rounding), cosine, len(last))


def _left_of(first: Tensor, last: Tensor, rounding: float) -> tuple[float, float]:
    """Return c, what is left of a start (h, d), and the cosine of start and end outside of the images' span.

    Span and c are found in turns: the span is the row span of W1 - c W1(0), and c the least-squares fit of W1 on W1(0)
    outside of this span.
    """
    decay = 1.0
    for _ in range(ROUNDS):
        span = _row_span(last - decay * first, rounding)
        outside, rest = first - first @ span @ span.T, last - last @ span @ span.T
        fitted = float((outside * rest).sum() / outside.square().sum())
        settled, decay = abs(fitted - decay) < SETTLED, fitted
        if settled:
            break
    return decay, float((outside * rest).sum() / (outside.norm() * rest.norm()).clamp_min(TINY))


def rounding_of(weights: Tensor) -> float:
    """Return the size of the rounding of released weights: half the spacing of numbers at 1, times their norm.

    Weights that float32 holds exactly were released in it, whatever they are held in to be searched.
    """
    exact = weights.dtype == torch.float64 and torch.equal(weights.float().double(), weights)
    return torch.finfo(torch.float32 if exact else weights.dtype).eps / 2 * float(weights.double().norm())


def movement(start: Mapping[str, Tensor], end: Mapping[str, Tensor]) -> float:
    """Return ||theta - theta(0)|| / ||theta(0)|| over all weights and biases of two states of a network.

    Of a start of zeros, which has no length to compare with, it is ||theta||.
    """
    learnt = [name for name in end if not name.endswith(STATISTICS)]
    begun, ended = (torch.cat([weights[name].flatten() for name in learnt]) for weights in (start, end))
    return float((ended - begun).norm() / (begun.norm() if begun.any() else 1))


def first_moved(start: Mapping[str, Tensor], end: Mapping[str, Tensor], before: int = 0) -> int | None:
    """Return the first of `layers`, from 0, whose weights a training moved; None if none did.

    Args:
        start: the initial weights, `layers.{l}.weight` among them.
        end: the released ones.
        before: layers that are left out, such as plain convolutions, which come first.
    """
    pairs = enumerate(zip(layer_weights(start), layer_weights(end), strict=False))
    return next((layer for layer, pair in pairs if layer >= before and not torch.equal(*pair)), None)


def _row_span(matrix: Tensor, rounding: float) -> Tensor:
    """Return a basis (d, r) of the rows of a matrix (h, d) before its last gap; without a gap, of half of them.

    The eigenvectors of the small Gram matrix are as good as singular vectors here, and are had several times as fast.
    """
    h, d = matrix.shape
    squares, vectors = torch.linalg.eigh(matrix @ matrix.T if h <= d else matrix.T @ matrix)
    singular = squares.flip(0).clamp_min(0).sqrt()
    rank, gap = last_gap(singular, max(rounding, GRAM * float(singular[0])))
    leading = vectors.flip(1)[:, : rank if gap > 1 else len(singular) // 2]
    span: Tensor = torch.linalg.qr(matrix.T @ leading).Q if h <= d else leading
    return span


def last_gap(singular: Tensor, rounding: float) -> tuple[int, float]:
    """Return the number of singular values before the last gap, and the gap's ratio; all of them and 1 without a gap.

    Images differ in how much they were learnt, so there may be gaps between them; behind the last gap is rounding.

    Args:
        singular: (k,) singular values, falling.
        rounding: a gap counts only if the singular value before it is larger than this.
    """
    looked = singular[: max(2, int(WIDEST * len(singular)))]
    ratios = looked[:-1] / looked[1:].clamp_min(torch.finfo(singular.dtype).tiny)
    gaps = ((ratios >= GAP) & (looked[:-1] > rounding)).nonzero().flatten()
    if len(gaps) == 0:
        return len(singular), 1.0
    return int(gaps[-1]) + 1, float(ratios[gaps[-1]])


def _noise_median(ratio: float) -> float:
    """Return the median of the Marchenko-Pastur distribution.

    The squared singular values of a (p, q) matrix of noise of variance 1 / q, p = ratio q, have this distribution.

    Args:
        ratio: beta, in (0, 1].
    """
    low, high = (1 - math.sqrt(ratio)) ** 2, (1 + math.sqrt(ratio)) ** 2

    def share(value: float) -> float:
        # of the values below `value`; with t = low + s^2 the density has no pole at 0 for beta = 1
        found, _ = quad(lambda s: 2 * s * s * math.sqrt(max(high - low - s * s, 0)) / (low + s * s), 0, value)
        return float(found) / (2 * math.pi * ratio)

    root: float = brentq(lambda value: share(value) - 0.5, 1e-9, math.sqrt(high - low))
    return low + root * root
