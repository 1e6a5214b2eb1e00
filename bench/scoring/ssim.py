"""The two structural similarities of the field, which differ in their window and border.

A threshold on "the" SSIM means nothing until both are pinned: on the same 30 published MNIST pairs the number above 0.4
is 0 with the KKT papers' 3 x 3 window and 27 with Wang's own.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

WANG_WINDOW = 11
"""Side of Wang's Gaussian window in pixels: smaller images have no such SSIM."""

_SIGMA = 1.5
_C1, _C2 = 0.01**2, 0.03**2

_CHUNK = 512
"""Pairs that are compared at once: it bounds the memory, and changes no number."""


def check_pairs(images: Tensor, references: Tensor) -> None:
    """Check that two batches of images can be compared pair by pair.

    Raises:
        ValueError: they differ in shape or are not four-dimensional.
    """
    if images.ndim != 4 or images.shape != references.shape:
        raise ValueError(f"expected two (k, C, H, W) batches of one shape, got {images.shape} and {references.shape}")


def ssim_wang(images: Tensor, references: Tensor) -> Tensor:
    """SSIM with Wang's 11 x 11 Gaussian window; equal to scikit-image's with the settings that it names for it.

    Population covariances, data range 1, mean over channels and over the pixels whose window lies inside the image.

    Args:
        images: (k, C, H, W) in [0, 1].
        references: (k, C, H, W) in [0, 1].

    Returns:
        (k,) float32 in [-1, 1], 1 for identical images; NaN for images with a side under 11 pixels.

    Raises:
        ValueError: the batches differ in shape or are not four-dimensional.

    Source:
        Wang, Bovik, Sheikh, Simoncelli 2004, eq. 13.
    """
    check_pairs(images, references)
    if min(images.shape[2:]) < WANG_WINDOW:
        return torch.full((len(images),), math.nan, device=images.device)
    return _ssim(images, references, WANG_WINDOW, reflect=False)


def ssim_window3(images: Tensor, references: Tensor) -> Tensor:
    """SSIM with a 3 x 3 Gaussian window and reflected borders, as the KKT papers' code has it.

    Args:
        images: (k, C, H, W) in [0, 1], sides of at least 2 pixels.
        references: (k, C, H, W) in [0, 1].

    Returns:
        (k,) float32 in [-1, 1], 1 for identical images.

    Raises:
        ValueError: the batches differ in shape or are not four-dimensional.

    Source:
        Haim et al. 2022, published code: kornia.metrics.ssim(window_size=3), sigma 1.5, "same" padding by reflection,
        C1 = 1e-4, C2 = 9e-4, mean over channels and pixels.
    """
    check_pairs(images, references)
    return _ssim(images, references, 3, reflect=True)


def _ssim(images: Tensor, references: Tensor, window: int, reflect: bool) -> Tensor:
    """Return the mean SSIM (k,) of a separable Gaussian window, in float64: variances are small differences of sums."""
    offsets = torch.arange(window, dtype=torch.float64, device=images.device) - window // 2
    kernel = torch.exp(-offsets.square() / (2 * _SIGMA**2))
    kernel = kernel / kernel.sum()
    pairs = zip(images.split(_CHUNK), references.split(_CHUNK), strict=True)
    values = [_ssim_map(x.double(), y.double(), kernel, reflect).mean((1, 2, 3)) for x, y in pairs]
    return torch.cat(values).float() if values else torch.zeros(0, device=images.device)


def _ssim_map(x: Tensor, y: Tensor, kernel: Tensor, reflect: bool) -> Tensor:
    """Return the SSIM per channel and pixel (Wang et al. 2004, eq. 13)."""
    mean_x, mean_y = _blur(x, kernel, reflect), _blur(y, kernel, reflect)
    var_x = _blur(x * x, kernel, reflect) - mean_x**2
    var_y = _blur(y * y, kernel, reflect) - mean_y**2
    covariance = _blur(x * y, kernel, reflect) - mean_x * mean_y
    luminance = (2 * mean_x * mean_y + _C1) / (mean_x**2 + mean_y**2 + _C1)
    structure = (2 * covariance + _C2) / (var_x + var_y + _C2)
    return luminance * structure


def _blur(values: Tensor, kernel: Tensor, reflect: bool) -> Tensor:
    """Return images with each channel blurred; by reflection the size stays, else only whole windows count.

    A sum of shifted images: with kernels this small it is several times faster than a float64 convolution on a CPU.
    """
    radius = len(kernel) // 2
    if reflect:
        values = F.pad(values, (radius, radius, radius, radius), mode="reflect")
    for axis in (2, 3):
        size = values.shape[axis] - 2 * radius
        shifted = (weight * values.narrow(axis, start, size) for start, weight in enumerate(kernel))
        values = sum(shifted, start=torch.zeros((), dtype=values.dtype, device=values.device))
    return values
