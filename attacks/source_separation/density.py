"""How likely responses are, which are sparse: a scene is flat but for its edges.

An edge lies at one place in all channels. So the responses of one filter at one place are normal numbers of one size,
which changes from place to place (a Gaussian scale mixture, Wainwright & Simoncelli 2000). No size is likelier than
another: that of a place is the one that fits its responses best, as in the separation of sources whose variance changes
(Pham & Cardoso 2001). That says more of an image than each response by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from attacks.source_separation.mixed import Blocks, Workspace

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
        squares = (responses / sizes).unflatten(1, (self.channels, -1)).square().mean(1)
        size = squares.mean(1, keepdim=True)
        cost: Tensor = ((squares / size + self.least).log() + size.log()).mean(1).sum() / 2
        return cost

    def evaluate(self, blocks: Blocks, work: Workspace) -> Tensor:
        """Return -log p per response of each picture (m,), but for a constant; write the score over the responses."""
        squares = work.of("squares", blocks)
        for block, part in zip(blocks, work.parts(squares, blocks), strict=True):
            torch.mul(block[0], block[0], out=part)
            for channel in block[1:]:
                part.addcmul_(channel, channel)
        total = squares.mean(1, keepdim=True)
        energy, size = squares.div_(total), total / len(blocks[0])
        weight = torch.add(energy, self.least, out=work.of("weight", blocks))
        cost = (torch.log(weight, out=energy).mean(1) + size[:, 0].log()) / 2
        weight.reciprocal_()
        weight.add_(self.least * weight.mean(1, keepdim=True)).div_(size)
        for block, part in zip(blocks, work.parts(weight, blocks), strict=True):
            block.mul_(part)
        return cost

    def curvature(self, energies: Tensor) -> Tensor:
        """Return the derivative of the scores at a place by their own responses, the mean over channels: (m, P).

        It leaves out what one response does to the mean square of all.

        Args:
            energies: (m, P), the mean over channels of the squares of the responses at each place.
        """
        size = energies.mean(1, keepdim=True)
        energy = energies / size
        weight = 1 / (energy + self.least)
        common = self.least * weight.mean(1, keepdim=True)
        bent: Tensor = (weight * (1 - 2 / self.channels * energy * weight) + common) / size
        return bent


@dataclass(frozen=True)
class Bell:
    """FastICA's contrast -exp(-s^2 / 2), which is made for sparse components (Hyvarinen 1999, eqs. 17 and 26)."""

    def evaluate(self, blocks: Blocks, work: Workspace) -> Tensor:
        """Return the mean (m,) of the score's derivative, and write the score s exp(-s^2 / 2) over the responses s."""
        sums = []
        for block in blocks:
            squares = block.square()
            bell = (squares / -2).exp()
            sums.append(((1 - squares) * bell).sum((0, 2)))
            block.mul_(bell)
        mean: Tensor = torch.stack(sums).sum(0) / sum(block.shape[0] * block.shape[2] for block in blocks)
        return mean
