"""The total variation of pictures: one of a scene is flat but for its edges, a mixture of several is not."""

from __future__ import annotations

import math

from torch import Tensor

FLAT = 1e-8
"""Square of a gradient below which the length is smooth, relative to the squared length of the picture."""


def relative_variation(pictures: Tensor) -> Tensor:
    """Return the mean length (m,) of the gradient at a pixel, relative to the root mean square pixel.

    It is the total variation of Rudin, Osher & Fatemi 1992, with the channels together (Bresson & Chan 2008), so that
    edges of several channels cost less where they meet. Contrast does not change it. A row of a table has none.

    Args:
        pictures: (m, C, H, W), none of them 0.
    """
    channels, height, width = pictures.shape[1:]
    unit = pictures / pictures.flatten(1).norm(dim=1)[:, None, None, None]
    down, right = unit[:, :, 1:, :-1] - unit[:, :, :-1, :-1], unit[:, :, :-1, 1:] - unit[:, :, :-1, :-1]
    lengths = ((down.square() + right.square()).sum(1) + FLAT).sqrt()
    relative: Tensor = lengths.sum((1, 2)) * math.sqrt(channels / (height * width))
    return relative
