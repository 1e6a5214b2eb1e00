"""What small filters answer to pictures, nearly independent from one picture to another, and how likely it is.

The responses to one picture are sparse, since a scene is flat but for its edges. An edge lies at one place in all
channels. So the responses of one filter at one place are normal numbers of one size, which changes from place to place
(a Gaussian scale mixture, Wainwright & Simoncelli 2000). No size is likelier than another: that of a place is the one
that fits its responses best, as in the separation of sources whose variance changes (Pham & Cardoso 2001). That says
more of an image than each response by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from scipy.fft import idct
from torch import Tensor

from attacks.optimisation.relative import Evaluation

SIZE = 3
"""Height and width of a filter."""
ALPHA = 3.0
"""The density of a response by itself is proportional to 1 / cosh(alpha s)^(1 / alpha): logistic at 1, nearly Laplace's
at 3."""


class Density(Protocol):
    """The density of the responses (r, T) to pictures, laid out channel by channel."""

    @property
    def channels(self) -> int:
        """How many responses belong together; they lie T / `channels` apart."""

    def cost(self, responses: Tensor, sizes: Tensor | float = 1) -> Tensor:
        """Return the sum over pictures of -log p per response, but for a constant, of responses divided by (r, 1)."""


@dataclass(frozen=True)
class Sparse:
    """Each response is sparse by itself (Ablin et al. 2018)."""

    channels: int = 1

    def cost(self, responses: Tensor, sizes: Tensor | float = 1) -> Tensor:
        """Return the sum over pictures of -log p per response (r, T) divided by sizes (r, 1)."""
        scaled = (ALPHA * responses / sizes).abs()
        return (scaled + F.softplus(-2 * scaled)).mean(1).sum() / ALPHA  # log cosh, but for a constant


SPARSE = Sparse()


@dataclass(frozen=True)
class ScaleMixture:
    """The responses of one filter at one place, one a channel, are normal and of one size.

    With e_t, the mean square at place t divided by that of the whole picture, the negative logarithm of the density is
    log(e_t + least) / 2 a response, and half the logarithm of that of the whole picture.

    Attributes:
        channels: as in `Density`.
        least: keeps places that are flat, as pictures have them, from being infinitely likely. The larger it is, the
            less rugged is the likelihood.
    """

    channels: int
    least: float = 0.01

    def cost(self, responses: Tensor, sizes: Tensor | float = 1) -> Tensor:
        """Return the sum over pictures of -log p per response (r, T) divided by sizes (r, 1)."""
        _, energy, size = self._energy(responses / sizes)
        return self._cost(energy, size)

    def evaluate(self, responses: Tensor) -> Evaluation:
        """Return how likely responses (r, T) are.

        The curvature leaves out what one response does to the mean square of all.
        """
        grouped, energy, size = self._energy(responses)
        weight = 1 / (energy + self.least)
        common = self.least * weight.mean(2, keepdim=True)
        score = grouped * ((weight + common) / size)
        curvature = weight - 2 / self.channels * energy * weight.square() + common
        return Evaluation(self._cost(energy, size), score.flatten(1), (curvature / size).mean((1, 2)))

    def _cost(self, energy: Tensor, size: Tensor) -> Tensor:
        """Return the sum over pictures of -log p per response, by `_energy`."""
        return ((energy + self.least).log() + size.log()).mean((1, 2)).sum() / 2

    def _energy(self, responses: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return responses (r, C, T / C), mean squares (r, 1, T / C) of places, relative to those of all (r, 1, 1)."""
        grouped: Tensor = responses.unflatten(1, (self.channels, -1))
        squares = grouped.square().mean(1, keepdim=True)
        size = squares.mean(2, keepdim=True)
        return grouped, squares / size, size


def filters(channels: int, like: Tensor) -> Tensor:
    """Return orthonormal filters (k, C, 3, 3) of mean 0 in the plane: the cosines over channels, rows and columns.

    Args:
        channels: C.
        like: a tensor of the precision and on the device of the result.
    """
    over = [torch.from_numpy(idct(np.eye(size), axis=1, norm="ortho")).to(like) for size in (channels, SIZE, SIZE)]
    products = torch.einsum("ac,bh,dw->abdchw", *over).flatten(1, 2)
    return products[:, 1:].flatten(0, 1)


def responses(pictures: Tensor) -> Tensor:
    """Return the responses (m, T) of pictures (m, C, H, W), one filter after another, each filter's of mean square 1.

    T = 8 C (H - 2) (W - 2). H and W are at least 3.
    """
    bank = filters(pictures.shape[1], pictures)
    answered = F.conv2d(pictures, bank)
    sizes = answered.square().mean((0, 2, 3), keepdim=True).sqrt()
    return (answered / sizes.clamp_min(torch.finfo(sizes.dtype).tiny)).flatten(1)


def thinned(responses: Tensor, least: int, channels: int) -> Tensor:
    """Return a part of responses (r, T), not smaller than `least`, in which those of one place stay together."""
    step = max(1, responses.shape[1] // least)
    grouped: Tensor = responses.unflatten(1, (channels, -1))
    return grouped[:, :, ::step].flatten(1)
