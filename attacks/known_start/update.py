"""What kind of update lies between two states of a network, where it is not a training of all weights."""

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


def stayed_flag(stayed: int, layers: int) -> str:
    """Return the line on a network whose first `stayed` layers of so many did not move."""
    if stayed == layers - 1:
        return "only the last layer moved: its difference is one sum of activations a class, not one an image"
    return f"the first {stayed} of {layers} layers did not move and show no image: use kkt-delta-features"
