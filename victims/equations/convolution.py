"""The row space of a network whose first layer is a convolution: that of layer 2, on features.

Of conv(k, C_out)-h-1 nearly all weights are in layer 2, W2 = sum_i c_i D_i' phi(x_i) with phi(x) = relu(conv(x)): its
rows lie in the span of the features of the training images, which are few in a space of tens of thousands of
dimensions. On coordinates z_i = V' phi(x_i) of that span the network is fully connected again and the residual is that
of `StationarityResidual`; and a candidate whose features leave the span is no training image: convolution and ReLU do
not map the combinations of images to the combinations of their features. (Span checks of this kind are known from
gradient inversion: Petrov et al. 2024, DAGER.)

Images are searched on cosines, scaled as in natural images: amplitudes fall with the frequency.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.fft import idctn
from torch import Tensor

from victims.equations.adjoint import StationarityResidual
from victims.equations.network import Network
from victims.equations.row_space import RowSpace
from victims.equations.spans import Span, share_outside

CHANNEL_SIZES = (1.0, 0.3, 0.15)
"""Amplitudes of natural colour images along the cosines over channels: the mean of the channels has most."""


def image_space(shape: tuple[int, int, int], like: Tensor) -> RowSpace:
    """Return all images (C, H, W) on cosines, with 1 / (1 + frequency) in the place of singular values.

    Args:
        shape: of an image; C is 1 or 3.
        like: a tensor of the precision and on the device to use.
    """
    channels, height, width = shape
    d = channels * height * width
    cosines = idctn(np.eye(d).reshape(d, *shape), axes=(1, 2, 3), norm="ortho").reshape(d, d).T
    frequency = np.hypot(*np.meshgrid(np.arange(height), np.arange(width), indexing="ij"))
    amplitudes = np.concatenate([(size / (1 + frequency)).ravel() for size in CHANNEL_SIZES[:channels]])
    return RowSpace(torch.from_numpy(cosines).to(like).contiguous(), torch.from_numpy(amplitudes).to(like), gap=False)


class FeatureResidual:
    """The residual of layer 2 on the coordinates of its features, and how far the features leave their span.

    Args:
        network: the victim; its first layer is a convolution.
        space: where the images are searched.
        features: what a candidate pays for features outside the span that W2 shows.
        residual: of the network after the convolution, on the features' coordinates.
    """

    def __init__(self, network: Network, space: RowSpace, features: Span, residual: StationarityResidual) -> None:
        self.network, self.space, self.features, self.residual = network, space, features, residual

    @property
    def parts(self) -> int:
        """How many parts the candidates are taken in after the convolution."""
        return self.residual.parts

    def in_parts(self) -> FeatureResidual:
        """Return the same residual, for less memory after the convolution."""
        return FeatureResidual(self.network, self.space, self.features, self.residual.in_parts())

    def __call__(
        self, coordinates: Tensor, coefficients: Callable[[Tensor], Tensor], alpha: float
    ) -> tuple[Tensor, Tensor]:
        """Return the residual, without the span's term, and the gradient of both; see `StationarityResidual`.

        Args:
            coordinates: (m, d) of the candidates in `space`; (R, m, d) for several searches.
            coefficients: maps the outputs (m, C) to the coefficients c (m, C).
            alpha: sharpness of the gates.
        """
        with torch.enable_grad():
            inputs = coordinates.detach().requires_grad_()
            features = self.network.features(inputs @ self.space.basis.T)
            projected = features @ self.features.basis
            cost = self.features.weight * share_outside(projected, features).sum()
            value, gradient = self.residual(projected.detach(), coefficients, alpha)
            # the residual comes in as its inner product with the gradient that is written down
            whole = cost + (projected * gradient).sum()
            (total,) = torch.autograd.grad(whole, inputs)
        return value, total
