"""What rows of a span are mixtures of: images, or feature maps. Filters answer to both, and each has its own sign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from attacks.independent_components.orientation import oriented
from attacks.independent_components.span import UpdateSpan
from attacks.source_separation.density import SPARSE, Density, ScaleMixture
from attacks.source_separation.filter_bank import filtered, filtered_maps
from attacks.source_separation.mixed import Mixed, by_themselves
from attacks.source_separation.responses import responses


class Pictures(Protocol):
    """What is separated."""

    @property
    def density(self) -> Density:
        """Of what filters answer."""

    def responses(self, rows: Tensor) -> Tensor:
        """Return what filters answer (r, T) to rows (r, d)."""

    def mixed(self, rows: Tensor) -> Mixed:
        """Return rows (r, d) as they are separated."""

    def signed(self, rows: Tensor, span: UpdateSpan) -> Tensor:
        """Return rows (r, d), of which nothing tells the sign yet, each with its sign."""


@dataclass(frozen=True)
class Images:
    """Images of a shape (C, H, W): filters reach over their channels, and the network tells their signs."""

    shape: tuple[int, int, int]
    density: Density = SPARSE

    def responses(self, rows: Tensor) -> Tensor:
        """Return what filters answer (r, T) to images (r, C H W)."""
        return responses(rows.reshape(-1, *self.shape))

    def mixed(self, rows: Tensor) -> Mixed:
        """Return images (r, d), or their responses where each is separated by itself."""
        if isinstance(self.density, ScaleMixture):
            return filtered(rows.unflatten(1, self.shape))
        return by_themselves(self.responses(rows))

    def signed(self, rows: Tensor, span: UpdateSpan) -> Tensor:
        """Return images (r, d) with the signs that fit the network best."""
        return oriented(rows, span.added, span.bias, span.network)


@dataclass(frozen=True)
class FeatureMaps:
    """Feature maps: filters stay in a channel, whose order says nothing.

    Attributes:
        shape: (C, H, W).
        positive: whether they add up to more than 0, as behind a ReLU, which tells their signs; else the network does.
    """

    shape: tuple[int, int, int]
    positive: bool = True

    @property
    def density(self) -> Density:
        """One size for all channels at a place."""
        return ScaleMixture(self.shape[0])

    def responses(self, rows: Tensor) -> Tensor:
        """Return what filters answer (r, T) to maps (r, C H W)."""
        return self.mixed(rows).responses()

    def mixed(self, rows: Tensor) -> Mixed:
        """Return maps (r, d), less what no filter sees."""
        return filtered_maps(rows.unflatten(1, self.shape))

    def signed(self, rows: Tensor, span: UpdateSpan) -> Tensor:
        """Return maps (r, d) whose sums are not negative, or with the signs that fit the network best."""
        if self.positive:
            return rows * torch.where(rows.sum(1, keepdim=True) < 0, -1.0, 1.0)
        return oriented(rows, span.added, span.bias, span.network)
