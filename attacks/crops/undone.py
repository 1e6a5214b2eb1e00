"""Parts of images moved back to where they were cut, by their black borders, and mirror images.

Inputs are standardised, so that black is well below 0; with raw ones, or a padding that is not black, no border is
found, and nothing is moved back.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attacks.crops.moves import all_moves, moved

FLAT = 0.5
"""A border is black if its pixels deviate from one level by less than this share of the image's deviation."""
DARK = -0.5
"""The brightest level of black, for an image of mean square 1."""


def uncropped(images: Tensor, crop: int) -> Tensor:
    """Return images (m, C, H, W) moved back by what their borders say; what was cut off is filled with the edge.

    Of all moves that is taken whose border is the largest that is nearly of one dark level.

    Args:
        images: with their signs, 0 being a grey that is usual, as in standardised inputs.
        crop: most pixels of black that were added on a side; 0 returns the images as they are.
    """
    moves = all_moves(crop)
    borders = torch.stack([1 - moved(torch.ones_like(images[:1]), move)[0, 0] for move in moves]).flatten(1)
    flat, channels = images.flatten(2), images.shape[1]
    pixels = channels * borders.sum(1)
    sums, squares = flat.sum(1) @ borders.T, flat.square().sum(1) @ borders.T
    size = flat.square().mean((1, 2)).sqrt()[:, None]
    level = (sums / pixels.clamp_min(1)).minimum(DARK * size)
    deviations = squares - 2 * level * sums + level.square() * pixels
    allowed = pixels * (FLAT * flat.flatten(1).std(1, correction=0)[:, None]).square()
    found = (deviations - allowed).argmin(1).tolist()
    return torch.stack([_moved_back(image, moves[place]) for image, place in zip(images, found, strict=True)])


def mirrored(images: Tensor, sure: Tensor) -> tuple[Tensor, Tensor]:
    """Return images (m, C, H, W) and behind them their mirror images, each less sure (m,) by one."""
    return torch.cat([images, images.flip(3)]), torch.cat([sure, sure - 1])


def _moved_back(image: Tensor, move: tuple[int, int]) -> Tensor:
    """Return an image (C, H, W) moved up and to the left, with its edge repeated where nothing is known."""
    for axis, step in zip((1, 2), move, strict=True):
        size = image.shape[axis]
        places = torch.arange(size, device=image.device) + step
        image = image.index_select(axis, places.clamp(max(step, 0), size - 1 + min(step, 0)))
    return image
