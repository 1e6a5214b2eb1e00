"""The attack as published: automatic double differentiation in pixel space (Haim et al. 2022, eqs. 6-9).

The constants are those of the authors' code: the loss averages over candidates where the paper sums, the box is
[-1, 1] in mean-subtracted space, and the hinge on lambda is squared.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from attacks.stationarity.gates import smooth_gate_relu
from attacks.stationarity.network import Network

BOX_WEIGHT = 1.0
LAMBDA_WEIGHT = 5.0
MOMENTUM = 0.9


def published_loss(network: Network, inputs: Tensor, multipliers: Tensor, signs: Tensor, alpha: float) -> Tensor:
    """Return sum_p ||theta_p - (1/m) grad_p sum_i lambda_i y_i Phi(theta; x_i)||^2, differentiable in x and lambda.

    Args:
        network: the victim.
        inputs: (m, d) candidates x.
        multipliers: (m,) lambda.
        signs: (m,) labels in {-1, +1}.
        alpha: sharpness of the gates.
    """
    weights = [weight.detach().requires_grad_() for weight in network.weights]
    biases = [None if bias is None else bias.detach().requires_grad_() for bias in network.biases]
    hidden = inputs
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        hidden = torch.nn.functional.linear(hidden, weight, bias)
        if layer < network.depth - 1:
            hidden = smooth_gate_relu(hidden, alpha)
    output = (multipliers * signs * hidden[:, 0]).mean()
    parameters = [*weights, *(bias for bias in biases if bias is not None)]
    gradients = torch.autograd.grad(output, parameters, create_graph=True)
    return torch.stack([(p.detach() - g).square().sum() for p, g in zip(parameters, gradients, strict=True)]).sum()


def published_penalties(inputs: Tensor, multipliers: Tensor, lambda_min: float) -> Tensor:
    """Return the box penalty on pixels outside [-1, 1] and the hinge that keeps lambda above lambda_min."""
    box = (inputs.abs() - 1).relu().square().sum()
    hinge = (lambda_min - multipliers).relu().square().sum()
    return BOX_WEIGHT * box + LAMBDA_WEIGHT * hinge


def published_search(
    network: Network,
    signs: Tensor,
    *,
    steps: int,
    lr: float,
    lambda_lr: float,
    init_scale: float,
    lambda_min: float,
    alpha: float,
    generator: torch.Generator,
    report: Callable[[int, float], None],
    report_steps: int = 10,
    start: Tensor | None = None,
) -> tuple[Tensor, Tensor, float]:
    """Run the authors' loop: SGD with momentum on candidates and multipliers, from `start` (m, d) or a normal draw.

    Returns:
        Candidates (m, d), lambda (m,) and the final published loss.
    """
    reference = network.weights[0]
    m = len(signs)
    if start is None:
        start = torch.randn(m, reference.shape[1], generator=generator) * init_scale
    inputs = start.to(reference).requires_grad_()
    multipliers = torch.rand(m, generator=generator).to(reference).requires_grad_()
    optimizer = torch.optim.SGD(
        [{"params": [inputs], "lr": lr}, {"params": [multipliers], "lr": lambda_lr}], momentum=MOMENTUM
    )
    loss = torch.zeros(())
    for step in range(steps):
        loss = published_loss(network, inputs, multipliers, signs, alpha)
        objective = loss + published_penalties(inputs, multipliers, lambda_min)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(objective, inputs=[inputs, multipliers])
        optimizer.step()
        if step % report_steps == 0 or step == steps - 1:
            report(step + 1, float(loss.detach()))
    return inputs.detach(), multipliers.detach(), float(loss.detach())
