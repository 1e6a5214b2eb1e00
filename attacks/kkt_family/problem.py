"""The problem of a search: the victim as plain tensors, and the data subspace that its weights show."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attacks.base import VictimView
from victims.equations.network import Network
from victims.equations.row_space import CosineSpace, RowSpace, row_space, row_span
from victims.equations.spans import SpanPenalty, Spans, activation_basis, error_basis
from victims.equations.stationarity import CoefficientMap, relative_residual


@dataclass(frozen=True)
class Problem:
    """A victim, and the subspace in which its training images are searched.

    Attributes:
        network: the victim, on pixels.
        space: the subspace in which images are searched; before convolutions the space of all images, on cosines.
        features: the data subspace of the layer after the convolutions, a subspace of its input features; None for a
            network without convolutions.
    """

    network: Network
    space: RowSpace | CosineSpace
    features: RowSpace | None = None

    @classmethod
    def of(cls, view: VictimView, device: torch.device, dtype: torch.dtype) -> Problem:
        """Return the problem of a victim, on this device and in this precision."""
        shape = view.architecture.input_shape
        network = Network.of(view.weights, shape, device, dtype)
        first = network.weights[0]
        if network.convolutions:
            return cls(network, CosineSpace.of(shape, first), row_span(network.after_convolutions().weights[0]))
        return cls(network, row_space(first))

    @property
    def data_subspace(self) -> RowSpace:
        """The data subspace of the first fully connected layer: of images, or of a convolution's features."""
        shown = self.space if self.features is None else self.features
        assert isinstance(shown, RowSpace)  # only images before convolutions are on cosines
        return shown

    @cached_property
    def connected(self) -> Network:
        """The network from its first fully connected layer on, on coordinates of `data_subspace`."""
        network = self.network if self.features is None else self.network.after_convolutions()
        return network.on_coordinates(self.data_subspace.basis)

    def spans(self, error_cost: float, activation_cost: float) -> Spans:
        """Return the spans that the first two fully connected layers show.

        Args:
            error_cost: cost of back-propagated errors that are orthogonal to their span; 0 for no such span.
            activation_cost: cost of activations that are orthogonal to their span; 0 for no such span.
        """
        errors = error_basis(self.connected, self.data_subspace) if error_cost else None
        activations = activation_basis(self.connected, self.data_subspace.rank) if activation_cost else None
        return Spans(
            None if errors is None else SpanPenalty(errors, error_cost),
            None if activations is None else SpanPenalty(activations, activation_cost),
        )

    @torch.no_grad()
    def activations_and_errors(self, inputs: Tensor, coefficients: CoefficientMap) -> tuple[list[Tensor], list[Tensor]]:
        """Return the activations A_1 to A_{L-1} and the errors D_1 to D_L of candidates, with the ReLU's own gates.

        Args:
            inputs: (m, r) candidates, on the coordinates of `data_subspace`.
            coefficients: maps their outputs (m, C) to D_L = c (m, C).
        """
        _, (_, *activations), errors = self.connected.passes(inputs, coefficients)
        return activations, errors

    def relative_residual(self, candidates: Tensor, coefficients: CoefficientMap) -> float:
        """Return ||R_1|| / ||theta_1|| of candidates (m, d); see `victims.equations.stationarity.relative_residual`."""
        inputs = candidates if self.features is None else self.network.features(candidates)
        return float(relative_residual(self.connected, inputs @ self.data_subspace.basis, coefficients))
