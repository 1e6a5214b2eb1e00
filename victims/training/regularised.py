"""Training to the minimum of a problem with weight decay (the lower level of Runkel et al. 2024).

Weight decay pulls W1 into the span of the data, so the minimum on coordinates of the span is the minimum on pixels.
L-BFGS finds it; if its line search stops short of the tolerance, Newton's method goes on for an affine classifier.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from victims.equations.architectures import MLP
from victims.spec import Regularised
from victims.training.lbfgs import Iterations, lbfgs
from victims.training.newton import newton


def objective(model: MLP, inputs: Tensor, labels: Tensor, weight_decay: float) -> tuple[Tensor, Tensor]:
    """Return the mean logistic loss + (weight_decay / 2) ||theta||^2, and the margins (n,).

    Args:
        model: the network.
        inputs: (n, r).
        labels: (n,) in {-1, +1}.
        weight_decay: weight decay of all parameters.
    """
    margins: Tensor = labels * model(inputs)
    decay = torch.stack([parameter.square().sum() for parameter in model.parameters()]).sum()
    return F.softplus(-margins).mean() + weight_decay / 2 * decay, margins.detach()


def relative_gradient(model: MLP, inputs: Tensor, labels: Tensor, weight_decay: float) -> float:
    """Return ||gradient|| / (weight_decay ||theta||) of `objective`, the distance of a network from a minimum."""
    value, _ = objective(model, inputs, labels, weight_decay)
    gradient = parameters_to_vector(torch.autograd.grad(value, list(model.parameters())))
    theta = parameters_to_vector(model.parameters()).detach()
    return float(gradient.norm() / (weight_decay * theta.norm()).clamp_min(1e-30))


def minimum(
    model: MLP, inputs: Tensor, labels: Tensor, spec: Regularised, report: Callable[[int, Tensor], None]
) -> MLP:
    """Return the network, trained in place to a minimum of `objective`.

    Args:
        model: the network on coordinates, float64.
        inputs: (n, r) coordinates.
        labels: (n,) in {-1, +1}.
        spec: weight decay, tolerance and largest number of iterations.
        report: called about twice a second, and at the end, with the iteration and the margins (n,).
    """
    parameters = list(model.parameters())
    margins, relative = labels, math.inf
    iterations = Iterations(lambda count: report(count, margins))

    def evaluate(theta: Tensor) -> tuple[float, Tensor]:
        nonlocal margins, relative
        vector_to_parameters(theta, parameters)
        value, margins = objective(model, inputs, labels, spec.weight_decay)
        gradient = parameters_to_vector(torch.autograd.grad(value, parameters))
        relative = float(gradient.norm() / (spec.weight_decay * theta.norm()).clamp_min(1e-30))
        return float(value.detach()), gradient

    def done() -> bool:
        iterations.another()
        return relative <= spec.tolerance

    theta = lbfgs(evaluate, parameters_to_vector(parameters).detach(), spec.steps, done)
    if len(model.layers) == 1:
        signed_inputs = labels[:, None] * torch.cat([inputs, torch.ones_like(inputs[:, :1])], 1)
        theta = newton(signed_inputs, spec.weight_decay, theta, spec.tolerance)
    vector_to_parameters(theta, parameters)
    report(spec.steps, margins)
    return model
