"""What an update between two states of a network shows of the number of images that made it.

A low-rank update (Hu et al. 2022, LoRA) shows its own rank in the place of that number.
"""

from __future__ import annotations

import torch

from victims.equations.network import Network
from victims.ordinary.difference import Difference, last_gap, rounding_of

MOST = 64
"""Largest rank that counts as a low-rank update."""


def low_rank(start: Network, end: Network, found: Difference) -> int | None:
    """Return r where every layer moved by a matrix of the same rank r, as by low-rank updates; None elsewhere.

    After a training of all weights each layer's difference has a rank of its own: activations change on the way, and
    the last layer has one direction for each class. Of rank 1 it may also be a training on one image, with one hidden
    layer.

    Args:
        start: the network at the beginning.
        end: the released network.
        found: the difference of their first layers.
    """
    if not found.shows_images or found.rank > MOST:
        return None
    for first, last in zip(start.weights[1:], end.weights[1:], strict=True):
        singular = torch.linalg.svdvals(last.double() - found.decay * first.double())
        rank, gap = last_gap(singular, rounding_of(last))
        if rank != found.rank or gap <= 1:
            return None
    return found.rank


def adapter_rank(start: Network, end: Network) -> int | None:
    """Return r where low-rank updates stand beside hidden layers and their biases stayed; None elsewhere.

    It is the largest rank that a hidden layer's difference shows. The first layer's is smaller where there are fewer
    images than r and plain gradients moved the update; behind it activations change on the way. Hidden layers may have
    none, and the last layer may be trained itself, as the head of a new task is.

    Args:
        start: the network at the beginning.
        end: the released network.
    """
    for before, after in zip(start.biases[:-1], end.biases[:-1], strict=True):
        if before is not None and after is not None and not torch.equal(before, after):
            return None
    shown = list[int]()
    for first, last in zip(start.weights[:-1], end.weights[:-1], strict=True):
        if torch.equal(first, last):
            continue
        rank, gap = last_gap(torch.linalg.svdvals(last.double() - first.double()), rounding_of(last))
        if gap <= 1:
            return None
        shown.append(rank)
    return max(shown, default=None)


def images_in(start: Network, end: Network, moved: int, found: Difference) -> int | None:
    """Return the number n of training images where an update shows it, None where it does not.

    n is the rank of a hidden layer's difference. The last layer shows one direction for each class, and a low-rank
    update its own rank, so neither shows n.

    Args:
        start: the network at the beginning.
        end: the released network.
        moved: the first layer that moved, from 0.
        found: the difference of that layer's weights.
    """
    if not found.shows_images or moved == len(end.weights) - 1:
        return None
    return None if moved == 0 and low_rank(start, end, found) else found.rank
