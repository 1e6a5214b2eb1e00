"""Scenes whose borders are bright, and how a training with random crops moves them."""

from __future__ import annotations

import torch
from torch import Tensor

CROP, BLACK = 3, torch.tensor([-2.0, -1.9, -1.7])[:, None, None]
MOVES = [(down, right) for down in range(-CROP, CROP + 1) for right in range(-CROP, CROP + 1)]


def scenes(count: int) -> Tensor:
    """Bright images (m, 3, 14, 16) with texture up to their edges, no side of which is flat and dark."""
    generator = torch.Generator().manual_seed(1)
    return torch.rand(count, 3, 14, 16, generator=generator) * 2.5 - 0.5


def moved(image: Tensor, down: int, right: int) -> Tensor:
    """An image that was moved, with black beside it."""
    padded = BLACK.expand(3, 14 + 2 * CROP, 16 + 2 * CROP).clone()
    padded[:, CROP : CROP + 14, CROP : CROP + 16] = image
    return padded[:, CROP - down : CROP - down + 14, CROP - right : CROP - right + 16]
