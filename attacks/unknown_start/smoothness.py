"""Which of many images is the smoothest, and how many directions are mixtures of images at all.

Neighbouring pixels of an image are nearly alike, those of noise are not. So what is missing of images along known rows
is filled in such that neighbours differ the least, which has a closed form.
"""

from __future__ import annotations

import torch
from torch import Tensor

SHORT = 1e-3
"""Price of a pixel's square beside that of the difference between neighbours; without it a constant had none."""
ALIKE = 0.65
"""Cosine of the pixels and their neighbours above which a direction is a mixture of images."""
AXES = 2, 3
"""Down and along pictures (m, C, H, W)."""

Shape = tuple[int, int, int]
"""(C, H, W) of an image."""


def smoothest(rows: Tensor, lost: Tensor, shape: Shape | None) -> Tensor:
    """Return mixtures of images (h, d), each the smoothest of those that differ from a row along the lost rows.

    It is the projection along the lost rows Q, v - Q' (Q L Q')^-1 Q L v, where v' L v is the sum of the squares of all
    differences between neighbours, and `SHORT` times those of the pixels. What lies along Q goes to 0.

    Args:
        rows: (h, d).
        lost: (r, d), linearly independent.
        shape: (C, H, W), d = C H W; None where there are no neighbours, which makes it the orthogonal projection.
    """
    along: Tensor = torch.linalg.qr(lost.T).Q.T
    if shape is None:
        shares = rows @ along.T
    else:
        rough = _rough(along, shape)
        shares = torch.linalg.solve(along @ rough.T, rough @ rows.T).T
    return rows - shares @ along


def smooth_directions(directions: Tensor, shape: Shape) -> int:
    """Return how many directions there are up to the last one that is a mixture of images, at least 1.

    Args:
        directions: (r, d), the most important first.
        shape: (C, H, W) of what they are mixtures of, with neighbours.
    """
    pictures = directions.unflatten(1, shape)
    common, squares = torch.zeros_like(directions[:, 0]), torch.zeros_like(directions[:, 0])
    for axis in AXES:
        first, second = pictures.narrow(axis, 0, shape[axis - 1] - 1), pictures.narrow(axis, 1, shape[axis - 1] - 1)
        common += (first * second).sum((1, 2, 3))
        squares += (first.square() + second.square()).sum((1, 2, 3)) / 2
    alike = (common > ALIKE * squares).nonzero()
    return int(alike[-1]) + 1 if len(alike) else 1


def _rough(rows: Tensor, shape: Shape) -> Tensor:
    """Return L times each row (h, d)."""
    pictures = rows.unflatten(1, shape)
    rough: Tensor = SHORT * pictures
    for axis in AXES:
        steps = pictures.diff(dim=axis)
        border = torch.zeros_like(pictures.narrow(axis, 0, 1))
        rough = rough - torch.cat([border, steps, border], axis).diff(dim=axis)
    return rough.flatten(1)
