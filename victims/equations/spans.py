"""Spans that the weights show, in which a part of every training image lies.

At a stationary point W_l = sum_i D_l(x_i) A_{l-1}(x_i)', in the letters of `victims.equations.network`. So the columns
of W_1 are combinations of the n back-propagated errors D_1(x_i), and the rows of W_2 combinations of the n activations
A_1(x_i). Where a layer is wider than n and shows n directions, these span all of them. The residual asks that the
candidates make up W_1 together, and the more images there are, the more ways there are to do so. The spans ask each
candidate alone that its own errors and its own activations stay inside. Span checks are known from gradient inversion
(Petrov et al. 2024, DAGER; Dimitrov et al. 2024, SPEAR); trained weights are sums of the same kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from victims.equations.network import Network
from victims.equations.row_space import RowSpace, row_space

FEWEST_SHOWN = 0.1
"""The rows of W_2 count as the span of the activations if they show at least this share of n directions.

Where the initialisation hides the smallest directions they are fewer than n, and still hold most of the activations'
energy. With one output layer 2 often shows two or three directions, which do not."""
MOST_HIDDEN = 0.002
"""They count no longer where the directions that they do not show hold more than this share of ||W_2||^2.

Then the start hides so much of the activations that a candidate which keeps to the shown directions is no image."""


@dataclass(frozen=True)
class SpanPenalty:
    """A penalty on what lies outside a subspace.

    Attributes:
        basis: (h, r) orthonormal.
        weight: the cost of a vector that is orthogonal to the subspace.
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
    """The spans that each candidate pays for leaving; None where the weights show no span.

    Attributes:
        errors: the span of D_1.
        activations: the span of A_1.
    """

    errors: SpanPenalty | None = None
    activations: SpanPenalty | None = None


def share_outside(projected: Tensor, vectors: Tensor) -> Tensor:
    """Return the share (..., m) of the energy of vectors (..., m, h) that their projections (..., m, r) lack."""
    return 1 - projected.square().sum(-1) / _energy(vectors)


def _energy(vectors: Tensor) -> Tensor:
    """Return the squared norms (..., m) of vectors (..., m, h), at least the smallest positive number."""
    return vectors.square().sum(-1).clamp_min(torch.finfo(vectors.dtype).tiny)


def error_basis(network: Network, data_subspace: RowSpace) -> Tensor | None:
    """Return an orthonormal basis (h_1, r) of the columns of W_1, None where they are the whole space.

    Args:
        network: fully connected, on the coordinates of `data_subspace`.
        data_subspace: the row space of W_1.
    """
    first = network.weights[0]
    if not data_subspace.gap or data_subspace.rank >= len(first):
        return None
    columns: Tensor = torch.linalg.qr(first.double()).Q
    return columns.to(first).contiguous()


def activation_basis(network: Network, images: int) -> Tensor | None:
    """Return an orthonormal basis (h_1, r) of the rows of W_2, None where they do not span the activations.

    Args:
        network: fully connected.
        images: the number of training images, n, as far as W_1 shows it.
    """
    if network.depth < 3:  # outputs are no hidden layer: they show a direction a class
        return None
    second = network.weights[1]
    rows = row_space(second)
    if not rows.gap or rows.rank < FEWEST_SHOWN * images:
        return None
    shown = rows.singular.square().sum() / second.square().sum()
    return rows.basis if 1 - shown <= MOST_HIDDEN else None
