"""Weights of LPIPS' trunk, made up."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from bench.scoring.lpips.weights import LAYERS

SHAPES = [(64, 3, 11, 11), (192, 64, 5, 5), (384, 192, 3, 3), (256, 384, 3, 3), (256, 256, 3, 3)]


def state_dict(value: Callable[[tuple[int, ...]], Tensor]) -> dict[str, Tensor]:
    """A state dict under torchvision's names, each tensor made from its shape."""
    weights = {f"features.{layer}.weight": value(shape) for layer, shape in zip(LAYERS, SHAPES, strict=True)}
    biases = {f"features.{layer}.bias": value(shape[:1]) for layer, shape in zip(LAYERS, SHAPES, strict=True)}
    return weights | biases
