"""What small filters answer to pictures, as products of matrices along each axis of a picture.

A filter is a product of cosines over channels, down a column and along a row. Its answer to a picture X is
s = A X B' on the planes that the cosines over channels make of X: two products of matrices, and two for the transpose.
Of each window size the bank has the filters with the highest cosine in at least one direction: the three Haar filters
over two pixels, which answer to an edge, and five over three pixels, which are of second order in a direction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.source_separation.mixed import Blocks, Mixed, Workspace
from attacks.source_separation.responses import cosines

SIZES = 2, 3
"""Of windows, in pixels."""
ENOUGH = 50_000
"""Responses to maps. Of four times as many every other place is enough in each direction: neighbours are alike."""
ROUNDING = 1e-10
"""A principal component of the channels with a smaller share of the largest one's squares is rounding."""


@dataclass(frozen=True)
class FilterBank:
    """Filters on pictures whose channels the cosines over channels have mixed.

    Attributes:
        shape: (C, H, W) of a picture.
        axes: pairs of matrices, one pair for each cosine down a column. The first (h, H) applies that cosine; the
            second (C, W, n) applies the cosines along a row that go with it, divided by the root mean square of the
            filter's answers. No filter has a mean in the plane.
    """

    shape: tuple[int, int, int]
    axes: tuple[tuple[Tensor, Tensor], ...]

    @classmethod
    def of(cls, pictures: Tensor, stride: int = 1) -> FilterBank:
        """Return the filters whose answers to pictures (r, C, H, W) have mean square 1, or 0 where they answer nothing.

        H and W are at least 3; filters lie `stride` pixels apart.
        """
        channels, height, width = pictures.shape[1:]
        axes = []
        for column, row in _pairs(height, width, stride, pictures):
            answered = torch.einsum("yh,rchw,kxw->rckyx", column, pictures, row)
            sizes = answered.square().mean((0, 3, 4)).sqrt().clamp_min(torch.finfo(pictures.dtype).tiny)
            axes.append((column, torch.einsum("kxw,ck->cwkx", row, 1 / sizes).flatten(2)))
        return cls((channels, height, width), tuple(axes))

    @property
    def count(self) -> int:
        """T, the number of responses to a picture."""
        return self.shape[0] * sum(column.shape[0] * row.shape[2] for column, row in self.axes)

    def blocks(self, rows: Tensor, work: Workspace) -> Blocks:
        """Return the responses to pictures (m, C H W), a block for each cosine down a column."""
        pictures = work.empty("pictures", (self.shape[0], len(rows), *self.shape[1:]), rows)
        pictures.copy_(rows.unflatten(1, self.shape).transpose(0, 1))
        blocks = []
        for index, (column, row) in enumerate(self.axes):
            columns = torch.matmul(column, pictures, out=self._columns(rows, column, work))
            shape = self.shape[0], len(rows) * len(column), row.shape[2]
            block = torch.bmm(columns.flatten(1, 2), row, out=work.empty(f"block{index}", shape, rows))
            blocks.append(block.unflatten(1, (len(rows), -1)).flatten(2))
        return tuple(blocks)

    def transposed(self, blocks: Blocks, work: Workspace) -> Tensor:
        """Return what the transpose makes of blocks, (m, C H W)."""
        rows = blocks[0].shape[1]
        pictures = work.empty("back", (self.shape[0], rows, *self.shape[1:]), blocks[0]).zero_()
        for block, (column, row) in zip(blocks, self.axes, strict=True):
            columns = self._columns(block[0], column, work)
            torch.bmm(block.unflatten(2, (-1, row.shape[2])).flatten(1, 2), row.mT, out=columns.flatten(1, 2))
            pictures.add_(column.T @ columns)
        return pictures.transpose(0, 1).flatten(1)

    def _columns(self, rows: Tensor, column: Tensor, work: Workspace) -> Tensor:
        """Return a tensor for what a cosine answers down the columns of as many pictures as there are rows."""
        return work.empty("columns", (self.shape[0], len(rows), len(column), self.shape[2]), rows)


def filtered(pictures: Tensor) -> Mixed:
    """Return rows (r, C H W) whose responses are those of pictures (r, C, H, W).

    They are the planes that the cosines over channels make of pictures, less their means.
    """
    pictures = pictures.contiguous()  # sums round by how they lie, and what a checkpoint held lies so
    return _rows(torch.einsum("ac,rchw->rahw", cosines(pictures.shape[1], pictures), pictures))


def filtered_maps(maps: Tensor) -> Mixed:
    """Return rows (r, C H W) whose responses are those of feature maps (r, C, H, W), whose channels have no order.

    Their channels are mixed such that the differences between neighbours in a map have no correlation from one channel
    to another (principal components). What is left of a channel that others make up is rounding, and is left out. Of
    large maps filters skip places (`ENOUGH`). H and W are at least 3.
    """
    maps = maps.contiguous()  # sums round by how they lie
    differences = torch.cat([maps.diff(dim=axis).transpose(0, 1).flatten(1) for axis in (2, 3)], 1).double()
    values, vectors = torch.linalg.eigh(differences @ differences.T)
    mixing = vectors * (values > ROUNDING * values[-1])
    count = sum(2 * size - 1 for size in SIZES) * maps[0].numel()  # so many filters are of highest order in a direction
    return _rows(torch.einsum("ca,rchw->rahw", mixing.to(maps), maps), max(1, int((count / ENOUGH) ** 0.5)))


def _rows(planes: Tensor, stride: int = 1) -> Mixed:
    """Return rows (r, C H W), planes (r, C, H, W) less their means, whose responses are those of the planes."""
    planes = planes - planes.mean((2, 3), keepdim=True)  # no filter sees these, and rounding is relative to them
    return Mixed(planes.flatten(1), FilterBank.of(planes, stride))


def _pairs(height: int, width: int, stride: int, like: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield what each cosine answers down a column, (h, H), and those it goes with along a row, (k, w, W)."""
    for size in SIZES:
        down, along = _windows(size, height, stride, like), _windows(size, width, stride, like)
        for column in down[:-1]:
            yield column, along[-1:]
        yield down[-1], along


def _windows(size: int, length: int, stride: int, like: Tensor) -> Tensor:
    """Return what the cosines over a window answer, wherever it lies on an axis: (size, places, length)."""
    window, begins = cosines(size, like), range(0, length - size + 1, stride)
    windows = torch.zeros(size, len(begins), length).to(like)
    for place, begin in enumerate(begins):
        windows[:, place, begin : begin + size] = window
    return windows
