"""The attack as published: automatic double differentiation in pixel space (Haim et al. 2022, eqs. 6-9).

The constants are those of the authors' code: the loss averages over candidates where the paper sums, the box is
[-1, 1] in mean-subtracted space, and the hinge on lambda is squared.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attacks.kkt_family.coefficients import Coefficients
from victims.equations.gates import smooth_gate
from victims.equations.network import Network
from victims.equations.stationarity import layer_residuals
from victims.training.hardware import Repeated

BOX_WEIGHT = 1.0
LAMBDA_WEIGHT = 5.0
MOMENTUM = 0.9
REPORT_STEPS = 100


def published_loss(network: Network, inputs: Tensor, coefficients: Callable[[Tensor], Tensor], alpha: float) -> Tensor:
    """Return sum_p ||theta_p - (1/m) grad_p sum_ij c_ij Phi_j(theta; x_i)||^2, a scalar differentiable in x and c.

    Args:
        network: the victim.
        inputs: (m, d) candidates x.
        coefficients: maps the outputs (m, C) to c (m, C); the gradient with respect to theta takes c as constant.
        alpha: sharpness of the gates.
    """
    averaged = layer_residuals(network, inputs, lambda outputs: coefficients(outputs) / len(inputs), smooth_gate(alpha))
    return torch.stack(averaged).sum()


def published_penalties(inputs: Tensor, multipliers: Tensor, lambda_min: float | None) -> Tensor:
    """Return the penalty, a scalar, on pixels outside [-1, 1] and on multipliers below lambda_min.

    Args:
        inputs: (m, d) candidates.
        multipliers: (m,) lambda.
        lambda_min: the floor of the multipliers, None for no penalty on them.
    """
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
    expired: Callable[[int], bool] = lambda step: False,
    checkpoint: Callable[[Callable[[], dict[str, Tensor]]], None] = lambda state: None,
    state: dict[str, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the candidates that the authors' loop finds: SGD with momentum on candidates and coefficients.

    Args:
        network: the victim.
        coefficients: the candidates' coefficients, with the variables that the loop moves.
        m: the number of candidates.
        steps: the number of steps.
        lr: learning rate of the candidates.
        lambda_lr: learning rate of the coefficients.
        init_scale: standard deviation of the normal draw.
        lambda_min: the floor of the multipliers, None for no hinge.
        alpha: sharpness of the gates.
        generator: CPU generator of the start.
        report: called every few steps, and after the last one, with the step and the candidates (m, d).
        start: (m, d) candidates to start from; None to draw them.
        expired: called before every step with the number of steps done; returns whether to end there.
        checkpoint: called after every step with a function that returns the state of the loop.
        state: such a state of the same loop, to go on from; empty or None to begin.

    Returns:
        Candidates (m, d) and their weights (m,).
    """
    reference = network.weights[0]
    if start is None:
        start = torch.randn(m, network.inputs, generator=generator) * init_scale
    inputs = start.to(reference).requires_grad_()
    optimizer = torch.optim.SGD(
        [{"params": [inputs], "lr": lr}, {"params": coefficients.variables, "lr": lambda_lr}], momentum=MOMENTUM
    )
    moving = [inputs, *coefficients.variables]
    first = 0
    if state:
        first = int(state["step"])
        with torch.no_grad():
            for index, variable in enumerate(moving):
                variable.copy_(state[f"variable.{index}"])
                optimizer.state[variable]["momentum_buffer"] = state[f"momentum.{index}"].to(variable)

    def now(step: int) -> dict[str, Tensor]:
        momenta = [optimizer.state[variable]["momentum_buffer"] for variable in moving]
        named = {f"variable.{index}": variable.detach() for index, variable in enumerate(moving)}
        named |= {f"momentum.{index}": momentum for index, momentum in enumerate(momenta)}
        return named | {"step": torch.tensor(step)}

    def descend() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss = published_loss(network, inputs, coefficients.at, alpha)
        objective = loss + published_penalties(inputs, coefficients.variables[0], lambda_min)
        torch.autograd.backward(objective, inputs=moving)

    differentiated = Repeated(descend, inputs.device)
    for step in range(first + 1, steps + 1):
        if expired(step - 1):
            break
        differentiated()
        optimizer.step()
        if step % REPORT_STEPS == 0 or step == steps:
            report(step, inputs.detach())
        checkpoint(partial(now, step))
    return inputs.detach(), coefficients.sizes().detach()
