"""What filters over 3 x 3 pixels answer to pictures, nearly independent from one picture to another.

Each response is by itself here. Where channels share a size other filters do better (`filter_bank`).
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from scipy.fft import idct
from torch import Tensor

SIZE = 3
"""Height and width of a filter."""


def cosines(size: int, like: Tensor) -> Tensor:
    """Return the orthonormal cosines (size, size), the even one first, as precise as a tensor, and on its device."""
    return torch.from_numpy(idct(np.eye(size), axis=1, norm="ortho")).to(like)


def filters(channels: int, like: Tensor) -> Tensor:
    """Return orthonormal filters (k, C, 3, 3) of mean 0 in the plane: the cosines over channels, rows and columns.

    Args:
        channels: C.
        like: a tensor of the precision and on the device of the result.
    """
    over = [cosines(size, like) for size in (channels, SIZE, SIZE)]
    products = torch.einsum("ac,bh,dw->abdchw", *over).flatten(1, 2)
    return products[:, 1:].flatten(0, 1)


def responses(pictures: Tensor) -> Tensor:
    """Return the responses (m, T) of pictures (m, C, H, W), one filter after another, each filter's of mean square 1.

    T = 8 C (H - 2) (W - 2). H and W are at least 3.
    """
    bank = filters(pictures.shape[1], pictures)
    answered = F.conv2d(pictures, bank)
    sizes = answered.square().mean((0, 2, 3), keepdim=True).sqrt()
    return (answered / sizes.clamp_min(torch.finfo(sizes.dtype).tiny)).flatten(1)


def thinned(responses: Tensor, least: int, channels: int) -> Tensor:
    """Return a part of responses (r, T), not smaller than `least`, in which those of one place stay together."""
    step = max(1, responses.shape[1] // least)
    grouped: Tensor = responses.unflatten(1, (channels, -1))
    return grouped[:, :, ::step].flatten(1)
