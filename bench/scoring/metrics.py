"""Metrics of one reconstruction against one training image.

Every metric takes two batches of images (k, C, H, W) in [0, 1] and gives a tensor (k,): how alike, or how far apart,
each pair is. It has a name, a direction, a range and a version; numbers of different versions are not to be compared.

There are two SSIMs because a threshold on "the" SSIM means nothing until window and border are pinned: on the same 30
published MNIST pairs the number above 0.4 is 0 with the authors' 3 x 3 window and 27 with Wang's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from skimage.metrics import structural_similarity
from torch import Tensor

METRIC_SUITE = "1"
"""Version of all metrics and protocols together: it changes whenever any published number could."""

WANG_WINDOW = 11
"""Side of Wang's Gaussian window in pixels: smaller images have no such SSIM."""

PSNR_CAP = 100.0
"""Identical images have an infinite PSNR, which no table or average can hold: they get this many dB."""

_SIGMA = 1.5
_C1, _C2 = 0.01**2, 0.03**2


def _check_pairs(images: Tensor, references: Tensor) -> None:
    if images.ndim != 4 or images.shape != references.shape:
        raise ValueError(f"expected two (k, C, H, W) batches of one shape, got {images.shape} and {references.shape}")


def ssim_wang(images: Tensor, references: Tensor) -> Tensor:
    """SSIM with Wang's 11 x 11 Gaussian window, by scikit-image.

    Population covariances, data range 1, mean over channels and over the pixels whose window lies inside the image.

    Args:
        images: (k, C, H, W) in [0, 1].
        references: (k, C, H, W) in [0, 1].

    Returns:
        (k,) float32 in [-1, 1], 1 for identical images; NaN for images with a side under 11 pixels.

    Raises:
        ValueError: The batches differ in shape or are not four-dimensional.

    Source:
        Wang, Bovik, Sheikh, Simoncelli 2004, eq. 13, with the settings that scikit-image names for it.
    """
    _check_pairs(images, references)
    if min(images.shape[2:]) < WANG_WINDOW:
        return torch.full((len(images),), math.nan, device=images.device)
    pairs = zip(images.detach().double().cpu().numpy(), references.detach().double().cpu().numpy(), strict=True)
    values = [
        structural_similarity(
            image,
            reference,
            channel_axis=0,
            data_range=1.0,
            gaussian_weights=True,
            sigma=_SIGMA,
            use_sample_covariance=False,
        )
        for image, reference in pairs
    ]
    return torch.tensor(values, dtype=torch.float32, device=images.device)


def ssim_window3(images: Tensor, references: Tensor) -> Tensor:
    """SSIM with a 3 x 3 Gaussian window and reflected borders, as the KKT papers' code has it.

    Args:
        images: (k, C, H, W) in [0, 1], sides of at least 2 pixels.
        references: (k, C, H, W) in [0, 1].

    Returns:
        (k,) float32 in [-1, 1], 1 for identical images.

    Raises:
        ValueError: The batches differ in shape or are not four-dimensional.

    Source:
        Haim et al. 2022, published code: kornia.metrics.ssim(window_size=3), sigma 1.5, "same" padding by reflection,
        C1 = 1e-4, C2 = 9e-4, mean over channels and pixels.
    """
    _check_pairs(images, references)
    x, y = images.double(), references.double()
    ratio = math.exp(-1 / (2 * _SIGMA**2))
    edge, centre = ratio / (1 + 2 * ratio), 1 / (1 + 2 * ratio)

    def blur(values: Tensor) -> Tensor:
        padded = F.pad(values, (1, 1, 1, 1), mode="reflect")
        across = centre * padded[..., 1:-1] + edge * (padded[..., :-2] + padded[..., 2:])
        return centre * across[..., 1:-1, :] + edge * (across[..., :-2, :] + across[..., 2:, :])

    mean_x, mean_y = blur(x), blur(y)
    var_x, var_y = blur(x * x) - mean_x**2, blur(y * y) - mean_y**2
    covariance = blur(x * y) - mean_x * mean_y
    luminance = (2 * mean_x * mean_y + _C1) / (mean_x**2 + mean_y**2 + _C1)
    structure = (2 * covariance + _C2) / (var_x + var_y + _C2)
    return (luminance * structure).mean((1, 2, 3)).float()


def mse(images: Tensor, references: Tensor) -> Tensor:
    """Mean squared error over channels and pixels.

    Args:
        images: (k, C, H, W) in [0, 1].
        references: (k, C, H, W) in [0, 1].

    Returns:
        (k,) float32 in [0, 1], 0 for identical images.

    Raises:
        ValueError: The batches differ in shape or are not four-dimensional.

    Source:
        Balle et al. 2022, section 5 (the informed adversary's reconstruction error).
    """
    _check_pairs(images, references)
    return (images.double() - references.double()).square().mean((1, 2, 3)).float()


def psnr(images: Tensor, references: Tensor) -> Tensor:
    """Peak signal-to-noise ratio, -10 log10(MSE), capped at `PSNR_CAP` dB so that identical images stay finite.

    Args:
        images: (k, C, H, W) in [0, 1].
        references: (k, C, H, W) in [0, 1].

    Returns:
        (k,) float32 in [0, 100] dB.

    Raises:
        ValueError: The batches differ in shape or are not four-dimensional.

    Source:
        The usual definition with peak 1.
    """
    return (-10 * mse(images, references).log10()).clamp(max=PSNR_CAP)


@dataclass(frozen=True)
class Metric:
    """A per-pair metric and what a table must know to rank by it."""

    name: str
    function: Callable[[Tensor, Tensor], Tensor]
    direction: Literal["higher", "lower"]
    """Which values are better for the attacker."""
    range: tuple[float, float]
    version: str
    source: str


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("ssim_wang", ssim_wang, "higher", (-1.0, 1.0), "1", "Wang et al. 2004, by scikit-image"),
        Metric("ssim_window3", ssim_window3, "higher", (-1.0, 1.0), "1", "Haim et al. 2022, published code"),
        Metric("mse", mse, "lower", (0.0, 1.0), "1", "Balle et al. 2022"),
        Metric("psnr", psnr, "higher", (0.0, PSNR_CAP), "1", "-10 log10(MSE), capped"),
    )
}
