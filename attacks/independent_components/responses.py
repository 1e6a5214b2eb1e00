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
from numpy.typing import NDArray
from picard.densities import Tanh
from scipy.fft import idct
from torch import Tensor

SIZE = 3
"""Height and width of a filter."""
ALPHA = 3.0
"""The density of a response by itself is proportional to 1 / cosh(alpha s)^(1 / alpha): logistic at 1, nearly Laplace's
at 3."""
LEAST = 0.01
"""Added to the mean squares of a place, relative to those of all: pictures have places that are flat."""

Array = NDArray[np.float64]


class PicardDensity(Protocol):
    """What picard descends on."""

    def log_lik(self, responses: Array) -> Array:
        """Return the negative logarithm of the density (r, T), or (T,), of responses of the same shape."""

    def score_and_der(self, responses: Array) -> tuple[Array, Array]:
        """Return its derivative by the responses (r, T), and the derivative of that."""


class Density(Protocol):
    """The density of the responses (r, T) to pictures, laid out channel by channel."""

    @property
    def channels(self) -> int:
        """How many responses belong together; they lie T / `channels` apart."""

    def cost(self, responses: Tensor, sizes: Tensor) -> Tensor:
        """Return the sum over pictures of -log p per response, but for a constant, of responses divided by (r, 1)."""

    def for_picard(self) -> PicardDensity:
        """Return it as picard takes it."""


@dataclass(frozen=True)
class Sparse:
    """Each response is sparse by itself (Ablin et al. 2018)."""

    channels: int = 1

    def cost(self, responses: Tensor, sizes: Tensor) -> Tensor:
        """Return the sum over pictures of -log p per response (r, T) divided by sizes (r, 1)."""
        scaled = (ALPHA * responses / sizes).abs()
        return (scaled + F.softplus(-2 * scaled)).mean(1).sum() / ALPHA  # log cosh, but for a constant

    def for_picard(self) -> PicardDensity:
        """Return picard's own."""
        density: PicardDensity = Tanh({"alpha": ALPHA})
        return density


SPARSE = Sparse()


@dataclass(frozen=True)
class ScaleMixture:
    """The responses of one filter at one place, one a channel, are normal and of one size.

    With e_t, the mean square at place t divided by that of the whole picture, the negative logarithm of the density is
    log(e_t + `LEAST`) / 2 a response.

    Attributes:
        channels: as in `Density`.
    """

    channels: int

    def cost(self, responses: Tensor, sizes: Tensor) -> Tensor:
        """Return the sum over pictures of -log p per response (r, T) divided by sizes (r, 1)."""
        _, energy, size = self._energy(responses / sizes)
        return ((energy + LEAST).log() + size.log()).mean((1, 2)).sum() / 2

    def for_picard(self) -> PicardDensity:
        """Return itself: it has what picard needs."""
        return self

    def log_lik(self, responses: Array) -> Array:
        """Return the negative logarithm of the density of responses (r, T) or (T,), in that shape."""
        grouped, energy, size = self._energy(torch.from_numpy(np.atleast_2d(responses)))
        each = ((energy + LEAST).log() + size.log()) / 2
        return each.expand_as(grouped).reshape(responses.shape).numpy()

    def score_and_der(self, responses: Array) -> tuple[Array, Array]:
        """Return the derivative of the cost by responses (r, T), times T, and the derivative of that.

        The second leaves out what one response does to the mean square of all.
        """
        grouped, energy, size = self._energy(torch.from_numpy(np.atleast_2d(responses)))
        weight = 1 / (energy + LEAST)
        common = LEAST * weight.mean(2, keepdim=True)
        curved = weight - 2 / self.channels * (grouped * weight).square() / size + common
        score = grouped * (weight + common) / size
        return score.reshape(responses.shape).numpy(), (curved / size).reshape(responses.shape).numpy()

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
