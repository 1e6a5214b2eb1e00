"""How a training with weight decay ends on the kinks of the ReLU, where its stationary points lie.

There no gradient of the objective vanishes, and descent hovers about them. With the corner of every ReLU rounded to a
parabola the objective is smooth, and L-BFGS gets to its stationary point. The slope inside the corner is one of those
that Clarke's subdifferential allows on the kink (`victims.equations.kinks`), so as the corners shrink the network comes to a
stationary point of its own (gradient consistency; Chen 2012, Smoothing methods for nonsmooth, nonconvex minimization).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from victims.equations.architectures import MLP
from victims.equations.kinks import RoundedReLU, corner_widths
from victims.equations.losses import margins, sample_losses
from victims.spec import DecayedDescent, Loss
from victims.training.lbfgs import Iterations, lbfgs
from victims.training.state import Figures

TOLERANCE = 4e-3
"""||gradient|| / (wd ||theta||) at which the search with one width is at its end."""


def settle(
    model: MLP,
    inputs: Tensor,
    labels: Tensor,
    loss: Loss,
    spec: DecayedDescent,
    report: Callable[[int, Figures], None],
) -> None:
    """Take a network, in place, to a stationary point of the objective with ever smaller corners.

    Args:
        model: the network, trained.
        inputs: (n, r) that it takes.
        labels: (n,) class indices.
        loss: of one sample.
        spec: weight decay, the corners' widths and the iterations for each.
        report: told about twice a second how many iterations there have been, and what the last one saw.
    """
    exact = deepcopy(model).double()
    inputs, parameters = inputs.double(), list(exact.parameters())
    figures, relative = Figures(torch.zeros(()), torch.zeros(len(labels))), math.inf
    iterations = Iterations(lambda count: report(count, figures))

    for corner in spec.corners:
        widths = _widths(exact, inputs, corner)

        def evaluate(theta: Tensor, widths: list[Tensor] = widths) -> tuple[float, Tensor]:
            nonlocal figures, relative
            vector_to_parameters(theta, parameters)
            outputs = _outputs(exact, inputs, widths)
            mean = sample_losses(loss, outputs, labels).mean()
            gradient = parameters_to_vector(torch.autograd.grad(mean, parameters))
            figures = Figures(mean.detach(), margins(outputs.detach(), labels))
            gradient += spec.weight_decay * theta
            relative = float(gradient.norm() / (spec.weight_decay * theta.norm()))
            return float(mean.detach()) + spec.weight_decay / 2 * float(theta.square().sum()), gradient

        def done() -> bool:
            iterations.another()
            return relative <= TOLERANCE

        start = parameters_to_vector(parameters).detach()
        vector_to_parameters(lbfgs(evaluate, start, spec.iterations, done), parameters)
    model.load_state_dict(exact.state_dict())


def _outputs(model: MLP, inputs: Tensor, widths: list[Tensor]) -> Tensor:
    """Return what the network answers with rounded corners, of the shape of its own outputs."""
    *hidden, last = model.linears()
    for layer, width in zip(hidden, widths, strict=True):
        inputs = RoundedReLU.apply(layer(inputs), width)
    outputs: Tensor = last(inputs)
    return outputs[:, 0] if outputs.shape[1] == 1 else outputs


@torch.no_grad()
def _widths(model: MLP, inputs: Tensor, corner: float) -> list[Tensor]:
    """Return the corner's width (h,) for each hidden layer."""
    widths = []
    for layer in model.linears()[:-1]:
        before = layer(inputs)
        widths.append(corner_widths(before, corner))
        inputs = F.relu(before)
    return widths
