"""The responses of `attacks.source_separation.responses` as products of matrices along each axis of a picture.

A filter is a product of cosines over channels, down a column and along a row, and so is its answer to a picture X:
s = A_v X B_h for the v-th cosine down and the h-th along, on the planes that the cosines over channels make of it. This
and its transpose are two products of matrices each.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.source_separation.mixed import Blocks, Mixed, Workspace
from attacks.source_separation.responses import SIZE, cosines


@dataclass(frozen=True)
class FilterBank:
    """Filters on pictures whose channels the cosines over channels have mixed.

    Attributes:
        shape: (C, H, W) of a picture.
        down: (3, H - 2, H), what each cosine answers down a column.
        along: for each of these (C, W, n), what cosines answer along a row, divided by the size of a filter's answers;
            for the first there are two, without the even one, for the others three: no filter has a mean in the plane.
    """

    shape: tuple[int, int, int]
    down: Tensor
    along: tuple[Tensor, ...]

    @classmethod
    def of(cls, pictures: Tensor) -> FilterBank:
        """Return the filters whose answers to pictures (r, C, H, W) have mean square 1, or 0 where they answer nothing.

        H and W are at least 3.
        """
        channels, height, width = pictures.shape[1:]
        down, row = _windows(height, pictures), _windows(width, pictures)
        along = []
        for index, column in enumerate(down):
            kept = row[1:] if index == 0 else row
            answered = torch.einsum("yh,rchw,kxw->rckyx", column, pictures, kept)
            sizes = answered.square().mean((0, 3, 4)).sqrt().clamp_min(torch.finfo(pictures.dtype).tiny)
            along.append(torch.einsum("kxw,ck->cwkx", kept, 1 / sizes).flatten(2))
        return cls((channels, height, width), down, tuple(along))

    @property
    def count(self) -> int:
        """T, the number of responses to a picture."""
        return self.shape[0] * self.down.shape[1] * sum(one.shape[2] for one in self.along)

    def blocks(self, rows: Tensor, work: Workspace) -> Blocks:
        """Return the responses to pictures (m, C H W), a block for each cosine down a column."""
        channels, height, _ = self.shape
        pictures = work.empty("pictures", (channels, len(rows), *self.shape[1:]), rows)
        pictures.copy_(rows.unflatten(1, self.shape).transpose(0, 1))
        blocks = []
        for index, (column, row) in enumerate(zip(self.down, self.along, strict=True)):
            columns = torch.matmul(column, pictures, out=self._columns(rows, work))
            shape = channels, len(rows) * (height - SIZE + 1), row.shape[2]
            block = torch.bmm(columns.flatten(1, 2), row, out=work.empty(f"block{index}", shape, rows))
            blocks.append(block.unflatten(1, (len(rows), -1)).flatten(2))
        return tuple(blocks)

    def transposed(self, blocks: Blocks, work: Workspace) -> Tensor:
        """Return what the transpose makes of blocks, (m, C H W)."""
        rows = blocks[0].shape[1]
        pictures = work.empty("back", (self.shape[0], rows, *self.shape[1:]), blocks[0]).zero_()
        for block, column, row in zip(blocks, self.down, self.along, strict=True):
            columns = self._columns(block[0], work)
            torch.bmm(block.unflatten(2, (-1, row.shape[2])).flatten(1, 2), row.mT, out=columns.flatten(1, 2))
            pictures.add_(column.T @ columns)
        return pictures.transpose(0, 1).flatten(1)

    def _columns(self, rows: Tensor, work: Workspace) -> Tensor:
        """Return a tensor for what a cosine answers down the columns of as many pictures as there are rows."""
        channels, height, width = self.shape
        return work.empty("columns", (channels, len(rows), height - SIZE + 1, width), rows)


def filtered(pictures: Tensor) -> Mixed:
    """Return rows (r, C H W) whose responses are those of pictures (r, C, H, W).

    They are the planes that the cosines over channels make of pictures, less their means.
    """
    pictures = pictures.contiguous()  # sums round by how they lie, and what a checkpoint held lies so
    planes = torch.einsum("ac,rchw->rahw", cosines(pictures.shape[1], pictures), pictures)
    planes = planes - planes.mean((2, 3), keepdim=True)  # no filter sees these, and rounding is relative to them
    return Mixed(planes.flatten(1), FilterBank.of(planes))


def _windows(size: int, like: Tensor) -> Tensor:
    """Return what the cosines over a window of three answer, wherever it lies on an axis (3, size - 2, size)."""
    window, windows = cosines(SIZE, like), torch.zeros(SIZE, size - SIZE + 1, size).to(like)
    for begin in range(size - SIZE + 1):
        windows[:, begin, begin : begin + SIZE] = window
    return windows
