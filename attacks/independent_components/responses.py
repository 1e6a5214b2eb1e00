"""What small filters answer to pictures: sparse numbers, and nearly independent from one picture to another."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from scipy.fft import idct
from torch import Tensor

SIZE = 3
"""Height and width of a filter."""


def filters(channels: int, like: Tensor) -> Tensor:
    """Return orthonormal filters (k, C, 3, 3) of mean 0 in the plane: the cosines over channels, rows and columns.

    Args:
        channels: C.
        like: a tensor of the precision and on the device of the result.
    """
    over = [torch.from_numpy(idct(np.eye(size), axis=1, norm="ortho")).to(like) for size in (channels, SIZE, SIZE)]
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
