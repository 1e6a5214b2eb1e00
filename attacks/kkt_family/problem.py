"""What a search is given: the victim as plain tensors, and the space that its weights show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attacks.base import VictimView
from victims.equations.convolution import image_space
from victims.equations.network import Network
from victims.equations.row_space import RowSpace, row_space, row_span
from victims.equations.spans import Span, Spans, activation_basis, signal_basis
from victims.equations.yardstick import unexplained


@dataclass(frozen=True)
class Problem:
    """A victim, and where its training images are searched.

    Attributes:
        network: the victim, on pixels.
        space: where images are searched.
        features: for a convolution, what layer 2 shows of the space of their features; else None.
    """

    network: Network
    space: RowSpace
    features: RowSpace | None = None

    @classmethod
    def of(cls, view: VictimView, device: torch.device, dtype: torch.dtype) -> Problem:
        """Return the problem that a victim's weights pose."""
        shape = view.architecture.input_shape
        network = Network.of(view.weights, shape, device, dtype)
        first = network.weights[0]
        if network.convolutional:
            return cls(network, image_space(shape, first), row_span(network.weights[1]))
        return cls(network, row_space(first))

    @property
    def shown(self) -> RowSpace:
        """The space that the first fully connected layer shows: of images, or of a convolution's features."""
        return self.space if self.features is None else self.features

    @cached_property
    def connected(self) -> Network:
        """The network from its first fully connected layer on, on coordinates of `shown`."""
        network = self.network if self.features is None else self.network.after_first()
        return network.on_coordinates(self.shown.basis)

    def spans(self, signals: float, activations: float) -> Spans:
        """Return the spans that the first two fully connected layers show, given what a candidate pays for leaving."""
        columns = signal_basis(self.connected, self.shown) if signals else None
        rows = activation_basis(self.connected, self.shown.rank) if activations else None
        return Spans(
            None if columns is None else Span(columns, signals), None if rows is None else Span(rows, activations)
        )

    def unexplained(self, candidates: Tensor, rows: Callable[[Tensor], Tensor]) -> float:
        """Return how far candidates (m, d) with these coefficients are from a solution; see `unexplained`."""
        inputs = candidates if self.features is None else self.network.features(candidates)
        return float(unexplained(self.connected, inputs @ self.shown.basis, rows))
