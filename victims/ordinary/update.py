"""What an update between two states of a network shows of the number of images that made it."""

from __future__ import annotations

import torch

from victims.equations.network import Network
from victims.ordinary.difference import Difference, last_gap

MOST = 64
"""Ranks of low-rank updates are small; a layer's difference of a larger rank is none."""


def low_rank(start: Network, end: Network, found: Difference) -> int | None:
    """Return r where every layer moved by a matrix of the same rank r, as by low-rank updates; None elsewhere.

    The difference of a training of all weights has a rank of its own in each layer: activations change on the way, and
    there is one direction a class in the last layer.

    Args:
        start: at the beginning.
        end: as released.
        found: of their first layers.
    """
    if not found.shows_images or found.rank > MOST:
        return None
    for first, last in zip(start.weights[1:], end.weights[1:], strict=True):
        singular = torch.linalg.svdvals(last.double() - found.decay * first.double())
        rounding = torch.finfo(last.dtype).eps / 2 * float(last.double().norm())
        rank, gap = last_gap(singular, rounding)
        if rank != found.rank or gap <= 1:
            return None
    return found.rank


def images_in(start: Network, end: Network, moved: int, found: Difference) -> int | None:
    """Return the number n of training images where an update shows it, None where it does not.

    It is the rank of the difference of a hidden layer. The last layer shows a direction a class, and a low-rank update
    its own rank.

    Args:
        start: at the beginning.
        end: as released.
        moved: the first layer that moved, from 0.
        found: of the weights of that layer.
    """
    if not found.shows_images or moved == len(end.weights) - 1:
        return None
    return None if moved == 0 and low_rank(start, end, found) else found.rank
