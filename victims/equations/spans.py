"""Spans that the weights show, in which something of every training image lies.

At a stationary point W_l = sum_i D_l(x_i) A_{l-1}(x_i)', in the letters of `residual`: the columns of W_1 are
combinations of the n signals D_1(x_i), and the rows of W_2 of the n activations A_1(x_i). Where a layer is wider than n
and shows n directions, these span all of them. The residual asks the candidates to make up W_1 together, and the more
images there are, the more ways there are to. That its own signal and its own activations stay in their spans is asked
of each candidate alone. Span checks are known from gradient inversion (Petrov et al.
2024, DAGER; Dimitrov et al. 2024, SPEAR, whose sparse signals are these); trained weights are sums of the same kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from victims.equations.network import Network
from victims.equations.row_space import RowSpace, row_space

FEWEST_SHOWN = 0.1
"""How many directions layer 2 has to show, of as many as there are images, for its rows to hold most of the energy of
the activations: where the initialisation hides the smallest they are fewer, but with one output often two or three."""


@dataclass(frozen=True)
class Span:
    """A subspace, and what it costs to leave it.

    Attributes:
        basis: (h, r) orthonormal.
        weight: cost of a vector all of whose energy is outside.
    """

    basis: Tensor
    weight: float

    def gradient(self, vectors: Tensor) -> Tensor:
        """Return the gradient (..., m, h) of the weighted `share_outside` of vectors (..., m, h), 0 for a vector 0."""
        projected = vectors @ self.basis
        inside = 1 - share_outside(projected, vectors)
        whole = vectors * inside[..., None] - projected @ self.basis.T
        return whole.div_(_energy(vectors)[..., None]).mul_(2 * self.weight)


@dataclass(frozen=True)
class Spans:
    """What a candidate alone pays for, in the letters of `residual`; None where the weights show no span.

    Attributes:
        signals: where D_1 lies.
        activations: where A_1 lies.
    """

    signals: Span | None = None
    activations: Span | None = None


def share_outside(projected: Tensor, vectors: Tensor) -> Tensor:
    """Return what share (..., m) of the energy of vectors (..., m, h) their projections (..., m, r) lack."""
    return 1 - projected.square().sum(-1) / _energy(vectors)


def _energy(vectors: Tensor) -> Tensor:
    return vectors.square().sum(-1).clamp_min(torch.finfo(vectors.dtype).tiny)


def signal_basis(network: Network, shown: RowSpace) -> Tensor | None:
    """Return a basis (h_1, r) of the columns of W_1, None where they are all of the space.

    Args:
        network: on the coordinates of `shown`.
        shown: what W_1 shows of the space of its inputs.
    """
    first = network.weights[0]
    if not shown.gap or shown.rank >= len(first):
        return None
    columns: Tensor = torch.linalg.qr(first.double()).Q
    return columns.to(first).contiguous()


def activation_basis(network: Network, images: int) -> Tensor | None:
    """Return a basis (h_1, r) of what the rows of W_2 show, None where it cannot be the activations of `images`."""
    if network.depth < 3:  # outputs are no hidden layer: they show a direction a class
        return None
    rows = row_space(network.weights[1])
    return rows.basis if rows.gap and rows.rank >= FEWEST_SHOWN * images else None
