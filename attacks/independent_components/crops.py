"""Crops undone: an image that was moved before the network saw it shows by how much, in the black beside it.

Random crops add black pixels on every side of an image and cut out a part of its size. What the weights hold are the
parts, each an image of its own, with a black border on at most two sides.
"""

from __future__ import annotations

import torch
from torch import Tensor

FLAT = 0.5
"""A border is black if its pixels deviate from one level by less than this share of the image's deviation."""
DARK = -0.5
"""The brightest level of black, for an image of mean square 1."""


def uncropped(images: Tensor, crop: int) -> Tensor:
    """Return images (m, C, H, W) moved back by what their borders say; what was cut off is filled with the edge.

    Of all movements that is taken whose border is the largest that is nearly of one dark level.

    Args:
        images: with both signs, 0 being a grey that is usual, as in standardised inputs.
        crop: most pixels of black that were added on a side; 0 returns the images as they are.
    """
    moves = [(down, right) for down in range(-crop, crop + 1) for right in range(-crop, crop + 1)]
    borders = torch.stack([_border(move, images) for move in moves]).flatten(1)
    flat, channels = images.flatten(2), images.shape[1]
    pixels = channels * borders.sum(1)
    sums, squares = flat.sum(1) @ borders.T, flat.square().sum(1) @ borders.T
    size = flat.square().mean((1, 2)).sqrt()[:, None]
    level = (sums / pixels.clamp_min(1)).minimum(DARK * size)
    deviations = squares - 2 * level * sums + level.square() * pixels
    allowed = pixels * (FLAT * flat.flatten(1).std(1, correction=0)[:, None]).square()
    found = (deviations - allowed).argmin(1).tolist()
    return torch.stack([_moved_back(image, moves[place]) for image, place in zip(images, found, strict=True)])


def _border(move: tuple[int, int], like: Tensor) -> Tensor:
    """Return 1 where an image (C, H, W) that was moved down and to the right is black, 0 elsewhere: (H, W)."""
    (down, right), (height, width) = move, like.shape[2:]
    rows, columns = torch.arange(height, device=like.device) - down, torch.arange(width, device=like.device) - right
    inside = ((rows >= 0) & (rows < height))[:, None] & (columns >= 0) & (columns < width)
    return (~inside).to(like)


def _moved_back(image: Tensor, move: tuple[int, int]) -> Tensor:
    """Return an image (C, H, W) moved up and to the left, with its edge repeated where nothing is known."""
    for axis, step in zip((1, 2), move, strict=True):
        size = image.shape[axis]
        places = torch.arange(size, device=image.device) + step
        image = image.index_select(axis, places.clamp(max(step, 0), size - 1 + min(step, 0)))
    return image
