"""The stationarity residual by automatic double differentiation: slow, and right for any network."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from victims.equations.network import Network


def layer_residuals(
    network: Network, inputs: Tensor, coefficients: Callable[[Tensor], Tensor], alpha: float
) -> list[Tensor]:
    """Return ||theta_l - sum_ij c_ij grad_l Phi_j(x_i)||^2 for every layer l, differentiable in x and c.

    Args:
        network: the victim.
        inputs: (m, d) candidates x.
        coefficients: maps the outputs (m, C) to c (m, C); the gradient with respect to theta takes c as constant.
        alpha: sharpness of the gates.
    """
    weights = [weight.detach().requires_grad_() for weight in network.weights]
    biases = [None if bias is None else bias.detach().requires_grad_() for bias in network.biases]
    outputs = network.forward(inputs, weights, biases, alpha)
    layers = [[w] if b is None else [w, b] for w, b in zip(weights, biases, strict=True)]
    parameters = [parameter for layer in layers for parameter in layer]
    gradients = iter(torch.autograd.grad(outputs, parameters, coefficients(outputs), create_graph=True))
    squares = [[(parameter.detach() - next(gradients)).square().sum() for parameter in layer] for layer in layers]
    return [torch.stack(parts).sum() for parts in squares]


class AutodiffResidual:
    """The weighted squared residual sum_l w_l ||R_l||^2 / ||theta_l||^2, called like `StationarityResidual`."""

    def __init__(self, network: Network, layers: tuple[float, ...]) -> None:
        self.network = network
        self.scales = [weight / norm for weight, norm in zip(layers, network.layer_square_norms(), strict=True)]

    @torch.enable_grad()
    def __call__(self, inputs: Tensor, coefficients: Callable[[Tensor], Tensor], alpha: float) -> tuple[Tensor, Tensor]:
        """Return the residual and its gradient with respect to the inputs; see `StationarityResidual`."""
        inputs = inputs.detach().requires_grad_()
        squares = layer_residuals(self.network, inputs, coefficients, alpha)
        total = torch.stack([scale * square for scale, square in zip(self.scales, squares, strict=True)]).sum()
        total.backward()
        assert inputs.grad is not None
        return total.detach(), inputs.grad
