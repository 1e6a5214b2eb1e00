"""The attack as published: automatic double differentiation in pixel space (Haim et al. 2022, eqs. 6-9).

The constants are those of the authors' code: the loss averages over candidates where the paper sums, the box is
[-1, 1] in mean-subtracted space, and the hinge on lambda is squared.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attacks.stationarity.autodiff import layer_residuals
from attacks.stationarity.coefficients import Coefficients
from attacks.stationarity.network import Network

BOX_WEIGHT = 1.0
LAMBDA_WEIGHT = 5.0
MOMENTUM = 0.9
REPORT_STEPS = 100


def published_loss(network: Network, inputs: Tensor, coefficients: Callable[[Tensor], Tensor], alpha: float) -> Tensor:
    """Return sum_p ||theta_p - (1/m) grad_p sum_ij c_ij Phi_j(theta; x_i)||^2, differentiable in x and c.

    Args:
        network: the victim.
        inputs: (m, d) candidates x.
        coefficients: maps the outputs (m, C) to c (m, C); the gradient with respect to theta takes c as constant.
        alpha: sharpness of the gates.
    """
    return torch.stack(
        layer_residuals(network, inputs, lambda outputs: coefficients(outputs) / len(inputs), alpha)
    ).sum()


def published_penalties(inputs: Tensor, multipliers: Tensor, lambda_min: float | None) -> Tensor:
    """Return the box penalty on pixels outside [-1, 1] and the hinge, if any, that keeps lambda above lambda_min."""
    box = (inputs.abs() - 1).relu().square().sum()
    if lambda_min is None:
        return BOX_WEIGHT * box
    hinge = (lambda_min - multipliers).relu().square().sum()
    return BOX_WEIGHT * box + LAMBDA_WEIGHT * hinge


def published_search(
    network: Network,
    coefficients: Coefficients,
    m: int,
    *,
    steps: int,
    lr: float,
    lambda_lr: float,
    init_scale: float,
    lambda_min: float | None,
    alpha: float,
    generator: torch.Generator,
    report: Callable[[int, Tensor], None],
    start: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Run the authors' loop: SGD with momentum on candidates and coefficients, from `start` (m, d) or a normal draw.

    Every few steps, and after the last one, `report` is called with the step and the candidates.

    Returns:
        Candidates (m, d) and how much each weighs (m,).
    """
    reference = network.weights[0]
    if start is None:
        start = torch.randn(m, network.inputs, generator=generator) * init_scale
    inputs = start.to(reference).requires_grad_()
    optimizer = torch.optim.SGD(
        [{"params": [inputs], "lr": lr}, {"params": coefficients.variables, "lr": lambda_lr}], momentum=MOMENTUM
    )
    for step in range(1, steps + 1):
        loss = published_loss(network, inputs, coefficients.rows, alpha)
        objective = loss + published_penalties(inputs, coefficients.variables[0], lambda_min)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(objective, inputs=[inputs, *coefficients.variables])
        optimizer.step()
        if step % REPORT_STEPS == 0 or step == steps:
            report(step, inputs.detach())
    return inputs.detach(), coefficients.sizes()
