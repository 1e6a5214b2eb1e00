"""The scores of one set of candidates under one protocol: matched to the training images, rescaled, and judged."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from bench.scoring.columns import right_columns, wrong_columns
from bench.scoring.matching import assign, ncc_distance, stretch, vote
from bench.scoring.metrics import mse
from bench.scoring.protocols import Protocol
from bench.scoring.ssim import WANG_WINDOW, ssim_wang, ssim_window3
from victims.errors import UserError


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


@dataclass(frozen=True)
class Truth:
    """The ground truth of scoring.

    Attributes:
        images: (n, C, H, W) in [0, 1], the training images.
        mean: (C, H, W), what the victim subtracts from an image in [0, 1] (zeros if nothing).
        nearest_known_mse: (n,) MSE of each image to the nearest one that the attacker has; inf where it has none.
        scale: broadcasts to (C, H, W), what one unit of an input is in pixels: images are inputs * scale + mean.
        decoys: (n, N - 1, C, H, W) the other records of each image's prior; None where there is no prior.

    Raises:
        ValueError: shapes do not fit, there is no image, or one leaves [0, 1].
    """

    images: Tensor
    mean: Tensor
    nearest_known_mse: Tensor
    scale: Tensor = field(default_factory=lambda: torch.ones(()))
    decoys: Tensor | None = None

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or len(self.images) == 0:
            raise ValueError(f"images must be (n, C, H, W) with n > 0, got {tuple(self.images.shape)}")
        if self.mean.shape != self.images.shape[1:] or self.nearest_known_mse.shape != self.images.shape[:1]:
            shapes = f"{tuple(self.mean.shape)}, nearest known MSE {tuple(self.nearest_known_mse.shape)}"
            raise ValueError(f"images are {tuple(self.images.shape)}, mean {shapes}")
        if not (self.images.min() >= 0 and self.images.max() <= 1):
            raise ValueError("images must lie in [0, 1]")

    @property
    def deviation(self) -> Tensor:
        """(C, H, W), the standard deviation of each pixel, or column of a table, over the training images."""
        return self.images.std(0, correction=0)


@dataclass
class Matcher:
    """Candidates beside the images they may reconstruct; distances are computed once for all protocols.

    Attributes:
        candidates: (m, C, H, W) in the victim's input space, any scale, m may be 0; NaN and infinite ones never serve.
        truth: what they are scored against.
    """

    candidates: Tensor
    truth: Truth
    _distances: dict[float, Tensor] = field(default_factory=dict)

    def distance(self, protocol: Protocol) -> Tensor:
        """Return the protocol's distances (n, m) in [0, 4], of rows of a table in [0, 1]; inf for what is not admitted.

        Raises:
            ValueError: the candidates' shape is not the images'.
        """
        truth = self.truth
        if protocol.good == "columns":
            finite = self.candidates.isfinite().flatten(1).all(1)[:, None, None, None]
            rows = torch.where(finite, rescaled(protocol, self.candidates, truth), torch.nan)
            return wrong_columns(truth.images, rows, truth.deviation)
        downscale = protocol.downscale if truth.mean.shape[0] > 1 else 1.0
        if downscale not in self._distances:
            self._distances[downscale] = ncc_distance(truth.images - truth.mean, self.candidates, downscale)
        return self._distances[downscale]


@torch.no_grad()
def score(protocol: Protocol, matcher: Matcher) -> Scores:
    """Score candidates under a protocol.

    Args:
        protocol: one of `PROTOCOLS`, or another.
        matcher: the candidates and the truth.

    Returns:
        The scores, on the device of the tensors given.

    Raises:
        ValueError: the candidates' shape is not the images'.
    """
    candidates, truth = matcher.candidates, matcher.truth
    if protocol.matching == "aligned":
        served, candidate = _aligned(candidates, len(truth.images))
        return judge(protocol, served, candidate, (candidate >= 0).long(), truth)
    distance = matcher.distance(protocol)
    if protocol.matching == "one to one":
        return judge(protocol, *assign(candidates, distance), truth)
    return judge(protocol, *vote(candidates, distance, protocol.vote_ratio), truth)


@torch.no_grad()
def judge(protocol: Protocol, served: Tensor, candidate: Tensor, voters: Tensor, truth: Truth) -> Scores:
    """Return the scores of one image per training image, however it was found.

    Args:
        protocol: says how it is rescaled and when it is good.
        served: (n, C, H, W) in the victim's input space.
        candidate: (n,) int64, which candidate it is; -1 if none.
        voters: (n,) int64, how many candidates it averages.
        truth: the training images.

    Raises:
        UserError: the protocol asks which record of a prior it is, and there is no prior.
    """
    reconstruction = torch.where((candidate >= 0)[:, None, None, None], rescaled(protocol, served, truth), truth.mean)
    reached, good = verdicts(protocol, reconstruction, torch.arange(len(served), device=served.device), truth)
    return Scores(protocol, reached, good & (candidate >= 0), candidate, voters, reconstruction)


def verdicts(protocol: Protocol, images: Tensor, targets: Tensor, truth: Truth) -> tuple[Tensor, Tensor]:
    """Return the similarity (k,) of images, and whether (k,) the protocol calls them reconstructions.

    Args:
        protocol: one of `PROTOCOLS`, or another.
        images: (k, C, H, W) in [0, 1], as the protocol shows them.
        targets: (k,) int64, which training image each is held against.
        truth: the training images.

    Raises:
        UserError: the protocol asks which record of a prior it is, and there is no prior.
    """
    references = truth.images[targets]
    reached = similarity(protocol, images, references, truth)
    good = reached > protocol.threshold
    if protocol.good == "oracle":
        nearest = truth.nearest_known_mse[targets]
        nearer = mse(images, references) < nearest
        good = nearer if protocol.matching == "aligned" else torch.where(nearest.isfinite(), nearer, good)
    elif protocol.good == "named":
        good = mse(images, references) < _nearest_decoy(protocol, images, targets, truth)
    return reached, good


def _nearest_decoy(protocol: Protocol, images: Tensor, targets: Tensor, truth: Truth) -> Tensor:
    """Return the MSE (k,) of each image (k, C, H, W) to the nearest other record of its target's prior."""
    if truth.decoys is None:
        raise UserError(f"{protocol.name} asks which record of a prior it is; this victim has no prior")
    decoys = truth.decoys[targets]
    columns = [mse(images, decoys[:, place]) for place in range(decoys.shape[1])]
    return torch.stack(columns).amin(0)


def rescaled(protocol: Protocol, inputs: Tensor, truth: Truth) -> Tensor:
    """Return inputs (k, C, H, W) of the victim as the images that the protocol shows, in [0, 1]."""
    images = inputs * truth.scale + truth.mean
    return (stretch(images) if protocol.stretch else images).clamp(0, 1)


def protocol_ssim(protocol: Protocol, images: Tensor, references: Tensor) -> Tensor:
    """Return the SSIM (k,) that the protocol judges, of two batches (k, C, H, W) in [0, 1]; NaN for tabular records."""
    if images.shape[2] == 1:
        return torch.full((len(images),), torch.nan)
    wang = protocol.ssim == "wang" and min(images.shape[2:]) >= WANG_WINDOW
    return ssim_wang(images, references) if wang else ssim_window3(images, references)


def similarity(protocol: Protocol, images: Tensor, references: Tensor, truth: Truth) -> Tensor:
    """Return what the protocol's threshold is held against (k,): the SSIM, or of rows the share of right columns."""
    if protocol.good == "columns":
        return right_columns(images, references, truth.deviation)
    return protocol_ssim(protocol, images, references)


def _aligned(candidates: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return the first n candidates and their indices; zeros and -1 where there is none or it is not finite."""
    served = candidates.new_zeros(n, *candidates.shape[1:])
    index = torch.full((n,), -1, dtype=torch.long, device=candidates.device)
    usable = candidates[:n].isfinite().flatten(1).all(1).nonzero().flatten()
    served[usable], index[usable] = candidates[usable], usable
    return served, index
