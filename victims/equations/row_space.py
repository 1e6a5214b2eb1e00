"""The data subspace: the subspace of its inputs in which the weights of a layer show the data.

Gradient descent moves W1 only within the span of the training inputs. With a small Gaussian initialisation of scale s,
the singular values of W1 that belong to the data stand above s (sqrt(d) + sqrt(h)), the edge of the initialisation's
own spectrum (Marchenko & Pastur 1967). Weight decay leaves nothing but the data's part of any initialisation, and below
it stands the rounding of the released weights. The attacker finds either gap in W1 alone and searches inside it. Before
a convolution the weights show no subspace of images, and all images are searched, on cosines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from scipy.fft import idct
from torch import Tensor

EDGE_SLACK = 1.1
"""The largest singular value of the initialisation may be this many times its asymptotic edge."""
SMALLEST_TAIL = 8
"""The fewest singular values that a Gaussian spectrum is recognised by."""
ROUNDING = 2.0**-24
"""Rounding to float32 leaves singular values up to this size, relative to ||W1||, outside the span of the data."""
CHANNEL_SIZES = (1.0, 0.3, 0.15)
"""Amplitudes of natural colour images along the cosines over channels: the mean of the channels has most."""


@dataclass(frozen=True)
class RowSpace:
    """The subspace in which candidates are searched.

    Attributes:
        basis: (d, r) orthonormal; the whole row space of the weight when no gap was found.
        singular: (r,) singular values of the weight along it, falling; of W1, ones when no gap was found.
        gap: whether the spectrum of the weight shows a gap. If it does, 0 < r < min(h, d) directions belong to the
            data.
    """

    basis: Tensor
    singular: Tensor
    gap: bool

    @property
    def rank(self) -> int:
        """The number of directions, r."""
        return self.basis.shape[1]

    def inputs(self, coordinates: Tensor) -> Tensor:
        """Return the vectors (..., d) of this subspace that have these coordinates (..., r)."""
        return coordinates @ self.basis.T

    def coordinates(self, inputs: Tensor) -> Tensor:
        """Return the coordinates (..., r) of the parts in this subspace of vectors (..., d)."""
        return inputs @ self.basis


@dataclass(frozen=True)
class CosineSpace:
    """The space of all images (C, H, W), on orthonormal cosines: where the weights show no subspace of images.

    The discrete cosine transform over channels, rows and columns is a product of three small matrices, so that an image
    of d = C H W pixels costs d (C + H + W) multiplications where a basis (d, d) costs d^2.

    Attributes:
        cosines: (C, C), (H, H) and (W, W) orthonormal; row k has the cosine of frequency k along its axis.
        singular: (d,) amplitudes of natural images along the coordinates, 1 / (1 + frequency) times `CHANNEL_SIZES`.
        gap: no spectrum has shown this space.
    """

    cosines: tuple[Tensor, Tensor, Tensor]
    singular: Tensor
    gap: ClassVar[bool] = False

    @classmethod
    def of(cls, shape: tuple[int, int, int], like: Tensor) -> CosineSpace:
        """Return the space of images of a shape (C, H, W), C being 1 or 3, as precise as `like` and where it is.

        The amplitudes of natural images fall with the frequency, so that smooth images are near.
        """
        channels, height, width = shape
        frequency = np.hypot(*np.meshgrid(np.arange(height), np.arange(width), indexing="ij"))
        amplitudes = np.concatenate([(size / (1 + frequency)).ravel() for size in CHANNEL_SIZES[:channels]])
        over = [torch.from_numpy(idct(np.eye(size), axis=1, norm="ortho")).to(like) for size in shape]
        return cls((over[0], over[1], over[2]), torch.from_numpy(amplitudes).to(like))

    @property
    def rank(self) -> int:
        """The number of coordinates, d."""
        return len(self.singular)

    def amplitudes(self, power: float) -> Tensor:
        """Return the amplitudes (d,) to a power, of mean square 1."""
        powers: Tensor = self.singular**power
        return powers / powers.square().mean().sqrt()

    def inputs(self, coordinates: Tensor) -> Tensor:
        """Return the images (..., d) that have these coordinates (..., d)."""
        channels, rows, columns = self.cosines
        mixed = torch.einsum("mcij,ck->mkij", self._maps(coordinates), channels)
        return (rows.T @ mixed @ columns).reshape(coordinates.shape)

    def coordinates(self, inputs: Tensor) -> Tensor:
        """Return the coordinates (..., d) of images (..., d)."""
        channels, rows, columns = self.cosines
        mixed = torch.einsum("mkij,ck->mcij", self._maps(inputs), channels)
        return (rows @ mixed @ columns.T).reshape(inputs.shape)

    def _maps(self, vectors: Tensor) -> Tensor:
        """Return vectors (..., d) as (m, C, H, W)."""
        return vectors.reshape(-1, *(len(one) for one in self.cosines))


def row_span(weight: Tensor) -> RowSpace:
    """Return the data's part of the row space of a weight (h, d), or the whole row space if there is no gap."""
    _, singular, directions = torch.linalg.svd(weight.double(), full_matrices=False)
    rank = data_rank(singular, *weight.shape)
    gap = 0 < rank < len(singular)
    rank = rank if gap else len(singular)
    return RowSpace(directions[:rank].T.to(weight).contiguous(), singular[:rank].to(weight), gap)


def row_space(first_weight: Tensor) -> RowSpace:
    """Return `row_span` of W1 (h, d), with ones for singular values if there is no gap.

    The part of an image outside the row space neither changes the network's outputs nor lowers the residual of layer 1.
    A network that has learnt nothing has no gap, like one whose data fill the whole space: both are searched alike.
    """
    space = row_span(first_weight)
    return space if space.gap else replace(space, singular=torch.ones_like(space.singular))


def data_rank(singular: Tensor, h: int, d: int) -> int:
    """Return the number of directions that belong to the data: the singular values after them look like noise.

    It is the smallest r such that the singular values after the first r fit a Gaussian matrix. A (h - r) x (d - r)
    Gaussian matrix of scale s has singular values between s |sqrt(d - r) - sqrt(h - r)| and
    s (sqrt(d - r) + sqrt(h - r)); s is estimated from the tail's Frobenius norm. If no tail fits, the result is the
    rank of the matrix in float32, which is min(h, d) without a gap.

    Args:
        singular: (min(h, d),) singular values, falling.
        h: the number of the matrix's rows.
        d: the number of its columns.
    """
    tails = singular.square().flip(0).cumsum(0).flip(0).sqrt()
    numerical = int((singular > ROUNDING * singular.norm()).sum())
    for rank in range(min(numerical, len(singular) - SMALLEST_TAIL)):
        high, low = math.sqrt(h - rank) + math.sqrt(d - rank), abs(math.sqrt(h - rank) - math.sqrt(d - rank))
        scale = float(tails[rank]) / math.sqrt((h - rank) * (d - rank))
        fits_top = float(singular[rank]) <= EDGE_SLACK * scale * high
        fits_bottom = float(singular[-1]) >= scale * low / 2
        if fits_top and fits_bottom:
            return rank
    return numerical
