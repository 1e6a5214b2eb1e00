"""How random crops move an image: by some pixels down and to the right, with nothing known beside it."""

from __future__ import annotations

import torch
from torch import Tensor


def all_moves(crop: int) -> list[tuple[int, int]]:
    """Return all moves, down and to the right, by at most so many pixels."""
    return [(down, right) for down in range(-crop, crop + 1) for right in range(-crop, crop + 1)]


def moved(images: Tensor, move: tuple[int, int]) -> Tensor:
    """Return images (m, C, H, W) moved down and to the right, with 0 where nothing is known."""
    (down, right), (height, width) = move, images.shape[2:]
    found = torch.zeros_like(images)
    rows, columns = (slice(max(step, 0), size + min(step, 0)) for step, size in ((down, height), (right, width)))
    before, left = (slice(max(-step, 0), size - max(step, 0)) for step, size in ((down, height), (right, width)))
    found[:, :, rows, columns] = images[:, :, before, left]
    return found
