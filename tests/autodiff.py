"""The weighted stationarity residual by automatic differentiation, which the written-down one is compared with."""

from __future__ import annotations

import torch
from torch import Tensor

from victims.equations.gates import smooth_gate
from victims.equations.network import Network
from victims.equations.stationarity import CoefficientMap, layer_residuals


class AutodiffResidual:
    """The weighted squared residual sum_l w_l ||R_l||^2 / ||theta_l||^2, called like `adjoint.StationarityResidual`."""

    def __init__(self, network: Network, layers: tuple[float, ...]) -> None:
        self.network = network
        self.scales = [weight / norm for weight, norm in zip(layers, network.layer_square_norms(), strict=True)]

    @torch.enable_grad()
    def __call__(self, inputs: Tensor, coefficients: CoefficientMap, alpha: float) -> tuple[Tensor, Tensor]:
        """Return the residual, a scalar tensor, and its gradient (m, d) with respect to inputs (m, d)."""
        inputs = inputs.detach().requires_grad_()
        squares = layer_residuals(self.network, inputs, coefficients, smooth_gate(alpha))
        total = torch.stack([scale * square for scale, square in zip(self.scales, squares, strict=True)]).sum()
        total.backward()
        assert inputs.grad is not None
        return total.detach(), inputs.grad
