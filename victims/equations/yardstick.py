"""One measure of how far a search has come, whatever its hyperparameters.

The residual that a search minimises is weighted by its hyperparameters and has gates as smooth as they say, so two
settings cannot be compared by it. This one is unweighted, of the network as it is, and of the first fully connected
layer alone: the others may keep their initial values, which no candidate explains. On the coordinates of its row space
that layer has no such floor.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from victims.equations.network import Network

TRUE_GATE = 1e6
"""Sharpness at which a smooth gate is the ReLU's own."""


def unexplained(network: Network, inputs: Tensor, coefficients: Callable[[Tensor], Tensor]) -> Tensor:
    """Return ||theta_1 - sum_ij c_ij grad_1 Phi_j(x_i)|| / ||theta_1||, a scalar tensor; 1 if nothing is explained.

    Args:
        network: the victim, from its first fully connected layer on.
        inputs: (m, r) what that layer is given, on the coordinates that it takes.
        coefficients: maps the outputs (m, C) to c (m, C).
    """
    weight, bias = network.weights[0].detach().requires_grad_(), network.biases[0]
    first = [weight] if bias is None else [weight, bias.detach().requires_grad_()]
    weights, biases = [weight, *network.weights[1:]], [*first[1:], *network.biases[len(first) - 1 :]]
    with torch.enable_grad():
        outputs = network.forward(inputs.detach(), weights, biases, TRUE_GATE)
        chosen = coefficients(outputs.detach().requires_grad_()).detach()
        gradients = torch.autograd.grad(outputs, first, chosen)
    with torch.no_grad():
        pairs = list(zip(first, gradients, strict=True))
        left = torch.stack([(theta - gradient).square().sum() for theta, gradient in pairs]).sum()
        return torch.sqrt(left / torch.stack([theta.square().sum() for theta in first]).sum())
