"""The stationarity residual of a network whose first layers are convolutions: the next layer's, on features.

Of conv(k, C_out)-h-1 nearly all weights are in layer 2, W2 = sum_i c_i D_i' phi(x_i) with phi(x) = relu(conv(x)), and
phi(x) = relu(conv(relu(conv(x)))) where there are two convolutions, W3 in the place of W2, and so on. The matrix's
rows lie in the span of the features of the training images, which are few in a space of tens of thousands of
dimensions. On coordinates z_i = V' phi(x_i) of that span the network is fully connected again and the residual is that
of `victims.equations.adjoint`. A candidate whose features leave the span is no training image: convolution and ReLU do
not map combinations of images to combinations of their features. (Span checks of this kind are known from gradient
inversion: Petrov et al. 2024, DAGER.)
"""

from __future__ import annotations

import torch
from torch import Tensor

from victims.equations.adjoint import StationarityResidual
from victims.equations.network import Network
from victims.equations.row_space import CosineSpace
from victims.equations.spans import SpanPenalty, share_outside
from victims.equations.stationarity import CoefficientMap


class FeatureResidual:
    """The residual after the convolutions on the coordinates of features, and how far features leave their span.

    Args:
        network: the victim; its first layers are convolutions.
        space: the space of all images, in which candidates are searched.
        features: the span of features that the first fully connected layer shows, and the cost of leaving it.
        residual: the residual of the network after the convolutions, on the features' coordinates.
    """

    def __init__(
        self, network: Network, space: CosineSpace, features: SpanPenalty, residual: StationarityResidual
    ) -> None:
        self.network, self.space, self.features, self.residual = network, space, features, residual

    @property
    def parts(self) -> int:
        """The number of parts in which the candidates are taken after the convolutions."""
        return self.residual.parts

    def in_parts(self) -> FeatureResidual:
        """Return the same residual, for less memory after the convolutions."""
        return FeatureResidual(self.network, self.space, self.features, self.residual.in_parts())

    def __call__(
        self, coordinates: Tensor, coefficients: CoefficientMap, alpha: float, offsets: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the residual, a scalar tensor, and the gradient (m, d) of the residual plus the span's cost.

        The gradients by the offsets and the variables of `coefficients` are added to their `.grad`; see
        `StationarityResidual`.

        Args:
            coordinates: (m, d) of the candidates in `space`; (R, m, d) for several searches.
            coefficients: maps the outputs (m, C) to the coefficients c (m, C).
            alpha: sharpness of the gates.
            offsets: (m, h_1) of the gates of the first fully connected layer, None for zeros.
        """
        with torch.enable_grad():
            inputs = coordinates.detach().requires_grad_()
            features = self.network.features(self.space.inputs(inputs))
            projected = features @ self.features.basis
            cost = self.features.weight * share_outside(projected, features).sum()
            value, gradient = self.residual(projected.detach(), coefficients, alpha, offsets)
            # the residual comes in as its inner product with the gradient that is written down
            whole = cost + (projected * gradient).sum()
            (total,) = torch.autograd.grad(whole, inputs)
        return value, total
