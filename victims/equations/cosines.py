"""All images on cosines: where a search takes place if the weights show no subspace of images.

A discrete cosine transform over channels, rows and columns. It is a product of three small matrices, so that an image
of d = C H W pixels costs d (C + H + W) multiplications where a basis (d, d) costs d^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.fft import idct
from torch import Tensor

CHANNEL_SIZES = (1.0, 0.3, 0.15)
"""Amplitudes of natural colour images along the cosines over channels: the mean of the channels has most."""


@dataclass(frozen=True)
class CosineSpace:
    """The space of all images (C, H, W), on orthonormal cosines.

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
        """Return the space of images of a shape (C, H, W), C being 1 or 3, in the precision and on the device of like.

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
