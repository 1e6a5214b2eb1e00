"""Crops undone: a network that saw parts of images, moved and with black beside them, holds the images all the same.

Random crops add black pixels on every side of an image and cut out a part of its size. With y = x - black, what the
first layer has added is a sum over images and moves s of errors times S_s y_i + black, where S_s moves an image and
fills with 0. Where the span of all these ends, as it does if there are fewer of them than neurons and pixels, the
images are what all moves keep in it: S_s y lies in the span of all parts and of the constants for each s. Nothing but
the images themselves has that: a part that is moved further is no part any more. Otherwise the parts are separated, and
each shows by its black border how far it was moved (`attacks.crops.undone`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attacks.crops.moves import all_moves, moved
from attacks.independent_components.span import UpdateSpan

LEAST_GAP = 25.0
"""Shares outside the span that grow by this factor from one direction to the next end the images' directions."""
LEAST_OUTSIDE = 1e-3
"""A direction with a smaller share outside may be an image's: its moves are smooth, or rounded."""
ROUNDING = 1e-12
"""Smaller shares count as this."""


@dataclass(frozen=True)
class Unmoved:
    """The images of which a span holds all moves.

    Attributes:
        span: of these images alone.
        black: (n,) the level of black, the mean over channels, in each row of the span's basis; it is linear in them.
    """

    span: UpdateSpan
    black: Tensor

    @classmethod
    def held_by(cls, span: UpdateSpan, shape: tuple[int, int, int], crop: int) -> Unmoved | None:
        """Return the images of which a span holds all moves; None if no gap shows them, or nothing moved.

        Args:
            span: of all parts.
            shape: (C, H, W) of an image, d = C H W.
            crop: most pixels by which parts are moved; if fewer moves are held, fewer were made.
        """
        if not crop:
            return None
        rows = span.basis.double()
        constants = torch.eye(shape[0]).to(rows).repeat_interleave(shape[1] * shape[2], 1)
        held = torch.linalg.qr(torch.cat([constants, rows]).T).Q.T
        kept = (_kept(outside) for outside in reversed(list(_outside(held, shape, crop))))
        directions = next((found for found in kept if found is not None), None)
        if directions is None:
            return None
        less_black = directions.T @ held  # y; the constants that bring it back into the span of the parts are black
        missed, free = (one - one @ rows.T @ rows for one in (less_black, constants))
        black = -torch.linalg.lstsq(free.T, missed.T).solution.T
        basis, scale = torch.linalg.qr((less_black + black @ constants).T)
        levels = torch.linalg.solve_triangular(scale.T, black.mean(1, keepdim=True), upper=False)[:, 0]
        flag = f"{span.flag}, which hold all moves of {len(less_black)}"
        return cls(replace(span, basis=basis.T.to(span.basis).contiguous(), flag=flag), levels.to(span.basis))

    def signed(self, images: Tensor) -> Tensor:
        """Return images (m, d) of the span with the signs by which black is dark."""
        level = images @ self.span.basis.T @ self.black
        return images * torch.where(level > 0, -1.0, 1.0)[:, None]


def _outside(held: Tensor, shape: tuple[int, int, int], crop: int) -> Iterator[Tensor]:
    """Yield the products (r, r) of what is outside of a span of its rows, moved by at most 1, 2, ... pixels, the mean.

    Args:
        held: (r, d) orthonormal rows.
        shape: (C, H, W) of an image, d = C H W.
        crop: the most pixels.
    """
    products = torch.zeros(len(held), len(held)).to(held)
    for most in range(1, crop + 1):
        for move in all_moves(most):
            if max(map(abs, move)) == most:
                parts = moved(held.unflatten(1, shape), move).flatten(1)
                left = parts - parts @ held.T @ held
                products = products + left @ left.T
        yield products / ((2 * most + 1) ** 2 - 1)


def _kept(outside: Tensor) -> Tensor | None:
    """Return the directions (r, n), orthonormal columns, that moves keep in a span; None if no gap ends them."""
    shares, directions = torch.linalg.eigh(outside)
    shares = shares.clamp_min(ROUNDING)
    gaps = torch.where(shares[1:] < LEAST_OUTSIDE, 1, shares[1:] / shares[:-1])
    last = int(gaps.argmax())
    return directions[:, : last + 1] if float(gaps[last]) >= LEAST_GAP else None
