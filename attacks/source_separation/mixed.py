"""Rows that are mixed, and a function of their responses that tells how independent they are (a contrast function).

Responses are linear in the rows, s = F x, so that whatever is a sum over responses has its derivative by the rows: that
by the responses, brought back by the transpose of F. Where rows are pictures they are smaller than their responses, and
what moves them is cheaper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

Blocks = tuple[Tensor, ...]
"""The responses to m rows, (C, m, n) each: those of one filter at one place, one a channel, lie along C."""
CACHED = 4 << 20
"""Bytes of responses that a processor computes with at a time."""


class Workspace:
    """Tensors that are used again, since a processor is slow at handing out new ones."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, tuple[int, ...], torch.dtype, torch.device], Tensor] = {}

    def empty(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return a tensor of a shape, with whatever the last user of its name and shape has left."""
        key = name, shape, like.dtype, like.device
        if key not in self._held:
            self._held[key] = like.new_empty(shape)
        return self._held[key]

    def of(self, name: str, blocks: Blocks) -> Tensor:
        """Return a tensor (m, P) with an entry for each of the P places of blocks."""
        return self.empty(name, (blocks[0].shape[1], sum(block.shape[2] for block in blocks)), blocks[0])

    @staticmethod
    def parts(places: Tensor, blocks: Blocks) -> tuple[Tensor, ...]:
        """Return the parts of (m, P) that belong to each block."""
        parts: tuple[Tensor, ...] = places.split([block.shape[2] for block in blocks], dim=1)
        return parts


class ContrastFunction(Protocol):
    """A function of responses that is minimised: -log p, or that of FastICA."""

    def evaluate(self, blocks: Blocks, work: Workspace) -> Tensor:
        """Return a figure of each row, (m,), and write the score over the responses.

        The score is the function's derivative by the responses, times T. An implementation says which figure it is.
        """


class Likelihood(ContrastFunction, Protocol):
    """-log p of responses. Its figure of a row is the mean over the row's responses."""

    def curvature(self, energies: Tensor) -> Tensor:
        """Return the derivative of the scores at a place by their own responses, the mean over channels: (m, P).

        Args:
            energies: (m, P), the mean over channels of the squares of the responses at each place.
        """


class LinearMap(Protocol):
    """The linear map from rows (m, d) to their responses."""

    @property
    def count(self) -> int:
        """T, the number of responses to a row."""

    def blocks(self, rows: Tensor, work: Workspace) -> Blocks:
        """Return the responses to rows (m, d), until the next call overwrites them."""

    def transposed(self, blocks: Blocks, work: Workspace) -> Tensor:
        """Return what the transpose of the map makes of blocks, (m, d), until the next call overwrites it."""


@dataclass(frozen=True)
class Identity:
    """Rows that are their own responses.

    Attributes:
        count: T.
        channels: how many responses belong together; they lie T / `channels` apart.
    """

    count: int
    channels: int = 1

    def blocks(self, rows: Tensor, work: Workspace) -> Blocks:
        """Return a copy of rows (m, T), as one block."""
        block = work.empty("rows", (self.channels, len(rows), self.count // self.channels), rows)
        return (block.copy_(rows.unflatten(1, (self.channels, -1)).transpose(0, 1)),)

    def transposed(self, blocks: Blocks, work: Workspace) -> Tensor:
        """Return the rows that a block holds."""
        return blocks[0].transpose(0, 1).flatten(1)


@dataclass(frozen=True)
class Mixed:
    """Rows of which a mixture is sought.

    Attributes:
        rows: (r, d).
        linear: the map to their responses.
    """

    rows: Tensor
    linear: LinearMap
    work: Workspace = field(default_factory=Workspace, repr=False)

    @property
    def count(self) -> int:
        """T, the number of responses to a row."""
        return self.linear.count

    def by(self, mixture: Tensor) -> Mixed:
        """Return their mixtures by a matrix (r, r), computed in the matrix's precision and kept in theirs."""
        return Mixed((mixture @ self.rows.to(mixture)).to(self.rows), self.linear, self.work)

    def responses(self) -> Tensor:
        """Return the responses (r, T) to the rows, channel by channel."""
        return torch.cat(self.linear.blocks(self.rows, Workspace()), 2).transpose(0, 1).flatten(1)

    def evaluate(self, function: ContrastFunction, rows: Tensor, score: Tensor) -> Tensor:
        """Return a function's figure of each row, (r,), and write its score by the rows (r, d), times T.

        A processor computes with a few rows at a time, whose responses stay in its cache.
        """
        found = []
        for part, out in zip(self._few(rows), self._few(score), strict=True):
            blocks = self.linear.blocks(part, self.work)
            found.append(function.evaluate(blocks, self.work))
            out.copy_(self.linear.transposed(blocks, self.work))
        return torch.cat(found)

    def curvature(self, likelihood: Likelihood, rows: Tensor) -> Tensor:
        """Return E psi'(s_i) s_j^2 (r, r) of the responses to each pair of rows (r, d).

        At a place with several channels it is the product of the means over channels.
        """
        energies = []
        for part in self._few(rows):
            blocks = self.linear.blocks(part, self.work)
            energies.append(torch.cat([block.square_().mean(0) for block in blocks], 1))
        whole = torch.cat(energies)
        return likelihood.curvature(whole) @ whole.T / whole.shape[1]

    def contrast(self) -> Tensor:
        """Return E exp(-s^2 / 2) of the responses to each row, brought to unit variance: (r,)."""
        means = []
        for part in self._few(self.rows):
            blocks = [block.square_() for block in self.linear.blocks(part, self.work)]
            size = torch.stack([block.sum((0, 2)) for block in blocks]).sum(0) / self.count
            bells = [block.div_(-2 * size[:, None]).exp_().sum((0, 2)) for block in blocks]
            means.append(torch.stack(bells).sum(0) / self.count)
        return torch.cat(means)

    def _few(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Return parts of rows; on a GPU all at once."""
        most = CACHED // (self.count * rows.element_size()) if rows.device.type == "cpu" else math.inf
        parts: tuple[Tensor, ...] = rows.split(max(1, int(min(len(rows), most))))
        return parts


def by_themselves(rows: Tensor, channels: int = 1) -> Mixed:
    """Return rows (r, T) that are their own responses; `channels` of them, T / `channels` apart, belong together."""
    return Mixed(rows, Identity(rows.shape[1], channels))
