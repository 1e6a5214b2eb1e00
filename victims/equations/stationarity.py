"""The stationarity residual in the form to read, by automatic differentiation: slow, and right for any network.

A homogeneous network trained to separate its data tends in direction to a KKT point of the margin problem (Lyu & Li
2020), so its weights satisfy theta = sum_ij c_ij grad_theta Phi_j(theta; x_i) (Haim et al. 2022, eqs. 2-3). With weight
decay the same equation holds for any loss (Buzaglo et al. 2023, Section 3). `victims.equations.adjoint` writes the
gradient of this residual down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from victims.equations.gates import smooth_gate
from victims.equations.network import Activation, Network

CoefficientMap = Callable[[Tensor], Tensor]
"""Maps outputs Phi (m, C) to coefficients c (m, C), differentiably; a row of c depends on the same row of Phi alone."""
TRUE_GATE = 1e6
"""Sharpness at which a smooth gate is the ReLU's own derivative, but within some 1e-5 of the kink."""


def layer_residuals(
    network: Network,
    inputs: Tensor,
    coefficients: CoefficientMap,
    activation: Activation,
    *,
    layers: Sequence[int] | None = None,
    differentiable: bool = True,
) -> list[Tensor]:
    """Return ||theta_l - sum_ij c_ij grad_l Phi_j(x_i)||^2, a scalar tensor, for every layer l.

    Args:
        network: the victim.
        inputs: (m, d) candidates x.
        coefficients: maps the outputs (m, C) to c (m, C); the gradient with respect to theta takes c as constant.
        activation: the ReLU, with the derivative that the equation shall have.
        layers: indices from 0 of the layers that count, None for all.
        differentiable: whether the residuals have derivatives with respect to x and c.
    """
    chosen = range(network.depth) if layers is None else layers
    weights = [weight.detach() for weight in network.weights]
    biases = [None if bias is None else bias.detach() for bias in network.biases]
    thetas = [[part for part in (weights[layer], biases[layer]) if part is not None] for layer in chosen]
    leaves = [part.requires_grad_() for parts in thetas for part in parts]
    outputs = network.forward(inputs, activation, weights, biases)
    gradients = iter(torch.autograd.grad(outputs, leaves, coefficients(outputs), create_graph=differentiable))
    squares = [[(part.detach() - next(gradients)).square().sum() for part in parts] for parts in thetas]
    return [torch.stack(parts).sum() for parts in squares]


def relative_residual(network: Network, inputs: Tensor, coefficients: CoefficientMap) -> Tensor:
    """Return ||theta_1 - sum_ij c_ij grad_1 Phi_j(x_i)|| / ||theta_1||, a scalar tensor; 1 if nothing is explained.

    It says how far a search has come, whatever its hyperparameters: it has the ReLU's own derivative and no weights,
    and counts the first fully connected layer alone, for the others may keep their initial values, which no candidate
    explains.

    Args:
        network: the victim, from its first fully connected layer on, on the coordinates of its data subspace.
        inputs: (m, r) candidates, on the same coordinates.
        coefficients: maps the outputs (m, C) to c (m, C).
    """
    with torch.enable_grad():
        (square,) = layer_residuals(
            network, inputs.detach(), coefficients, smooth_gate(TRUE_GATE), layers=(0,), differentiable=False
        )
    return torch.sqrt(square.detach() / network.layer_square_norms()[0])
