"""The scores of one set of candidates under one protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from bench.scoring.protocols import Protocol


@dataclass(frozen=True)
class Scores:
    """The scores of one set of candidates under one protocol; tensors are per training image.

    A training image that no candidate serves (fewer candidates than images, or none finite) is reconstructed by the
    mean image: its metrics are the mean image's and enter the means, but it is never good nor among the best.

    Attributes:
        protocol: the protocol that was followed.
        similarity: (n,) the protocol's SSIM, or the share of columns that are right.
        good: (n,) bool: a candidate serves the image, and well enough.
        candidate: (n,) int64, the nearest or assigned candidate; -1 if none.
        voters: (n,) int64, how many candidates the reconstruction averages.
        reconstruction: (n, C, H, W) in [0, 1].
    """

    protocol: Protocol
    similarity: Tensor
    good: Tensor
    candidate: Tensor
    voters: Tensor
    reconstruction: Tensor

    @property
    def ssim(self) -> Tensor:
        """(n,) the protocol's SSIM; NaN where it judges rows of a table."""
        judged = self.protocol.good == "columns"
        return torch.full_like(self.similarity, torch.nan) if judged else self.similarity

    @property
    def found(self) -> Tensor:
        """(n,) bool: a candidate serves the image."""
        return self.candidate >= 0

    @property
    def n_good(self) -> int:
        """Number of good images."""
        return int(self.good.sum())

    @property
    def ssim_mean(self) -> float:
        """Mean SSIM over all training images."""
        return float(self.ssim.mean())

    @property
    def ssim_top10(self) -> float:
        """Mean SSIM of the ten best found images (of all, if fewer); NaN if none was found."""
        return float(self.ssim[self.found].sort(descending=True).values[:10].mean())

    @property
    def ssim_best(self) -> float:
        """Best SSIM of a found image; NaN if none was found."""
        return max(self.ssim[self.found].tolist(), default=float("nan"))
