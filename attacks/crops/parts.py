"""Parts that random crops cut out of candidates, on coordinates of a span.

With y = x - black, a part of an image x is S_s y + black, where the move S_s fills with 0. On the coordinates of an
orthonormal basis B, with x = B u, it is linear in u but for what black leaves beside the image,

    B' (S_s (x - black) + black) = (B' S_s B) u + B' (1 - S_s 1) black,

in which black has a level for each channel. Nine moves stand for all (2 c + 1)^2 of crops by at most c pixels: along
each axis none and +-a, with the variance of all, 2 a^2 / 3 = c (c + 1) / 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.crops.moves import moved


@dataclass(frozen=True)
class Parts:
    """Some parts of an image, which stand for all its parts.

    Attributes:
        matrices: (s, r, r) B' S_s B, transposed.
        beside: (s, C, r) B' (1 - S_s 1), for a channel each.
    """

    matrices: Tensor
    beside: Tensor

    @classmethod
    def of(cls, basis: Tensor, shape: tuple[int, int, int], crop: int, flip: bool) -> Parts:
        """Return the parts that stand for all crops by at most so many pixels.

        Args:
            basis: (d, r) orthonormal.
            shape: (C, H, W) of an image, d = C H W.
            crop: most pixels by which an image is moved; 0 for the image alone.
            flip: whether half of the parts are mirrored.
        """
        rows = basis.T.unflatten(1, shape)
        ones = torch.eye(shape[0]).to(basis)[:, :, None, None].expand(-1, -1, *shape[1:])
        reach = round(math.sqrt(crop * (crop + 1) / 2))
        steps = (-reach, 0, reach) if crop else (0,)
        matrices, beside = list[Tensor](), list[Tensor]()
        for move in [(down, right) for down in steps for right in steps]:
            for mirrored in (rows, rows.flip(3)) if flip else (rows,):
                matrices.append(moved(mirrored, move).flatten(1) @ basis)
                beside.append((ones - moved(ones, move)).flatten(1) @ basis)
        return cls(torch.stack(matrices), torch.stack(beside))

    def __len__(self) -> int:
        """Return the number of parts of an image, s."""
        return len(self.matrices)

    @property
    def channels(self) -> int:
        """The number of channels, C."""
        return self.beside.shape[1]

    def cut(self, inputs: Tensor, black: Tensor) -> Tensor:
        """Return the parts (m s, r) of inputs (m, r), those of one image beside each other.

        Args:
            inputs: on the coordinates.
            black: (C,) its level in each channel.
        """
        parts = torch.einsum("mr,srk->msk", inputs, self.matrices) + torch.einsum("c,scr->sr", black, self.beside)
        return parts.flatten(0, 1)
