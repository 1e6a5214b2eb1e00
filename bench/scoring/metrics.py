"""Metrics of one reconstruction against one training image.

Every metric has a name, a direction and a range, and gives a tensor (n,): a number per training image. Numbers of
different metric suites are not to be compared. The two SSIMs are in `bench.scoring.ssim`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from bench.scoring.matching import ncc_distance, nearest_neighbours
from bench.scoring.ssim import check_pairs, ssim_wang, ssim_window3
from bench.terminal.text import describe

if TYPE_CHECKING:
    from bench.scoring.judges import Judge
    from bench.scoring.lpips.perceptual import Perceptual

METRIC_SUITE = "2"
"""Version of all metrics and protocols together: it changes whenever any published number could."""

PSNR_CAP = 100.0
"""Identical images have an infinite PSNR, which no table or average can hold: they get this many dB."""


def mse(images: Tensor, references: Tensor) -> Tensor:
    """Mean squared error over channels and pixels.

    Args:
        images: (k, C, H, W) in [0, 1].
        references: (k, C, H, W) in [0, 1].

    Returns:
        (k,) float32 in [0, 1], 0 for identical images.

    Raises:
        ValueError: the batches differ in shape or are not four-dimensional.

    Source:
        Balle et al. 2022, section 5 (the informed adversary's reconstruction error).
    """
    check_pairs(images, references)
    return (images.double() - references.double()).square().mean((1, 2, 3)).float()


def psnr(images: Tensor, references: Tensor) -> Tensor:
    """Peak signal-to-noise ratio, -10 log10(MSE), capped at `PSNR_CAP` dB so that identical images stay finite.

    Args:
        images: (k, C, H, W) in [0, 1].
        references: (k, C, H, W) in [0, 1].

    Returns:
        (k,) float32 in [0, 100] dB.

    Raises:
        ValueError: the batches differ in shape or are not four-dimensional.

    Source:
        The usual definition with peak 1.
    """
    return (-10 * mse(images, references).log10()).clamp(max=PSNR_CAP)


def pearson(images: Tensor, references: Tensor) -> Tensor:
    """Correlation over all channels and pixels: how alike the images are after the best affine fit a x + b.

    A negative value is an image that fits best upside down (a < 0). An image without variation has none: 0.

    Args:
        images: (k, C, H, W).
        references: (k, C, H, W).

    Returns:
        (k,) float32 in [-1, 1].

    Raises:
        ValueError: the batches differ in shape or are not four-dimensional.

    Source:
        Pearson's product-moment correlation; 1 - r^2 is the share of variance that the fit leaves.
    """
    check_pairs(images, references)
    x, y = images.flatten(1).double(), references.flatten(1).double()
    x, y = x - x.mean(1, keepdim=True), y - y.mean(1, keepdim=True)
    size = x.norm(dim=1) * y.norm(dim=1)
    flat = size < 1e-9 * x.shape[1]
    return torch.where(flat, 0.0, (x * y).sum(1) / size.where(~flat, 1)).clamp(-1, 1).float()


@dataclass(frozen=True)
class Evidence:
    """The input of a metric: reconstructions, the images they stand for, and networks to measure with.

    Attributes:
        images: (n, C, H, W) in [0, 1], one reconstruction per training image.
        references: (n, C, H, W) in [0, 1], the training images.
        pool: (p, C, H, W) in [0, 1], other images of the distribution that an attacker may have; p may be 0.
        perceptual: what measures LPIPS, None if there are no weights to be had.
        judge: the classifier that measures KL, None if there is none.
    """

    images: Tensor
    references: Tensor
    pool: Tensor
    perceptual: Perceptual | None = None
    judge: Judge | None = None


def nearest_neighbour_mse(evidence: Evidence) -> Tensor:
    """Return the MSE of each training image to the nearest image of the pool, (n,): reachable without the victim.

    Source:
        Balle et al. 2022, section 5: the nearest-neighbour oracle. Without a pool nothing can be guessed: inf.
    """
    if len(evidence.pool) == 0:
        return torch.full((len(evidence.references),), math.inf)
    return nearest_neighbours(evidence.references, evidence.pool)[0]


def identified(evidence: Evidence) -> Tensor:
    """Return whether each reconstruction is nearer to its own image than to any other of the dataset, (n,) in {0, 1}.

    Retrieval at rank 1 among training images and pool, by the normalised distance of `ncc_distance`; a reconstruction
    without variation is near to nothing.

    Source:
        The identifiability of gradient-inversion benchmarks (IIP of Yin et al. 2021), with a distance that needs no
        network.
    """
    dataset = torch.cat([evidence.references, evidence.pool])
    distance = ncc_distance(dataset, evidence.images)
    own = distance.diagonal()
    others = distance.clone()
    others.fill_diagonal_(torch.inf)
    return (own < others.amin(0)).float()


def lpips(evidence: Evidence) -> Tensor:
    """Return the learned perceptual distance, (n,) >= 0; NaN without weights.

    Source:
        Zhang, Isola, Efros, Shechtman, Wang 2018; see `bench.scoring.lpips.perceptual`.
    """
    if evidence.perceptual is None:
        return torch.full((len(evidence.images),), math.nan)
    return evidence.perceptual(evidence.images, evidence.references)


def kl(evidence: Evidence) -> Tensor:
    """Return a judge's divergence KL(p(training image) || p(reconstruction)), (n,) nats; NaN without a judge.

    Source:
        Balle et al. 2022, section 5; the direction, which the paper leaves open, takes the training image first.
    """
    if evidence.judge is None:
        return torch.full((len(evidence.images),), math.nan)
    return evidence.judge.kl(evidence.images, evidence.references)


def _of_pairs(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Evidence], Tensor]:
    @functools.wraps(function)
    def measured(evidence: Evidence) -> Tensor:
        return function(evidence.images, evidence.references)

    return measured


@dataclass(frozen=True)
class Metric:
    """A metric and what a table must know to rank by it."""

    name: str
    function: Callable[[Evidence], Tensor]
    direction: Literal["higher", "lower"]
    """Which values are better for the attacker."""
    range: tuple[float, float]
    source: str


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("ssim_wang", _of_pairs(ssim_wang), "higher", (-1, 1), "Wang et al. 2004"),
        Metric("ssim_window3", _of_pairs(ssim_window3), "higher", (-1, 1), "Haim et al. 2022, published code"),
        Metric("mse", _of_pairs(mse), "lower", (0, 1), "Balle et al. 2022"),
        Metric("psnr", _of_pairs(psnr), "higher", (0, PSNR_CAP), "-10 log10(MSE), capped"),
        Metric("pearson", _of_pairs(pearson), "higher", (-1, 1), "product-moment correlation"),
        Metric("lpips", lpips, "lower", (0, math.inf), "Zhang et al. 2018, lpips 0.1 AlexNet, sides >= 64"),
        Metric("kl", kl, "lower", (0, math.inf), "Balle et al. 2022, judges of bench.scoring.judges"),
        Metric("oracle_mse", nearest_neighbour_mse, "lower", (0, 1), "Balle et al. 2022, pool: held-out images"),
        Metric("identified", identified, "higher", (0, 1), "retrieval at rank 1, after Yin et al. 2021"),
    )
}


def measure(evidence: Evidence, names: tuple[str, ...]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Measure by several metrics; one that fails costs its own cell and nothing else.

    Returns:
        The values (n,) by name, and for each metric that raised, has the wrong shape or left NaN, why it has none.
    """
    values: dict[str, Tensor] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            value = METRICS[name].function(evidence).detach().float().cpu()
        except Exception as error:  # a metric must not cost an attack its run
            failed[name] = describe(error)
            continue
        if value.shape != evidence.references.shape[:1]:
            failed[name] = f"it gave {tuple(value.shape)} numbers for {len(evidence.references)} images"
        elif value.isnan().any():
            failed[name] = f"it is not a number for {int(value.isnan().sum())} of {len(value)} images"
        else:
            values[name] = value
    return values, failed
