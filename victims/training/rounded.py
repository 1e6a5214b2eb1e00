"""The end of a training with weight decay: on the kinks of the ReLU, where its stationary points lie.

There no gradient of the objective vanishes, and descent hovers about them. With the corner of every ReLU rounded to a
parabola the objective is smooth, and L-BFGS reaches its stationary point. The slope inside the corner is one that
Clarke's subdifferential allows on the kink (`victims.equations.kinks`), so as the corners shrink the network tends to a
stationary point without rounding (gradient consistency; Chen 2012, Smoothing methods for nonsmooth, nonconvex
minimization).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from victims.equations.architectures import MLP
from victims.equations.gates import RoundedReLU, corner_widths
from victims.equations.losses import margins, sample_losses
from victims.equations.network import Network
from victims.spec import DecayedDescent, Loss
from victims.training.lbfgs import Iterations, lbfgs
from victims.training.state import Figures

TOLERANCE = 4e-3
"""Relative gradient ||gradient|| / (wd ||theta||) at which the search with one width ends."""


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
        loss: loss of one sample.
        spec: weight decay, the corners' widths and the number of iterations for each.
        report: called about twice a second with the number of iterations and the figures of the last one.
    """
    exact = deepcopy(model).double()
    inputs, parameters = inputs.double(), list(exact.parameters())
    network = Network.of(dict(exact.named_parameters()))
    figures, relative = Figures(torch.zeros(()), torch.zeros(len(labels))), math.inf
    iterations = Iterations(lambda count: report(count, figures))

    for corner in spec.corners:
        widths = _widths(network, inputs, corner)

        def evaluate(theta: Tensor, widths: list[Tensor] = widths) -> tuple[float, Tensor]:
            nonlocal figures, relative
            vector_to_parameters(theta, parameters)
            outputs = _outputs(network, inputs, widths)
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


def _outputs(network: Network, inputs: Tensor, widths: list[Tensor]) -> Tensor:
    """Return the outputs (n,) or (n, C) for inputs (n, r) with rounded corners of these widths (h_l,), one a layer."""
    of_layers = iter(widths)
    outputs = network.forward(inputs, lambda pre_activation: RoundedReLU.apply(pre_activation, next(of_layers)))
    return outputs[:, 0] if outputs.shape[1] == 1 else outputs


@torch.no_grad()
def _widths(network: Network, inputs: Tensor, corner: float) -> list[Tensor]:
    """Return the corner's width (h_l,) for every hidden layer, given inputs (n, r) and its relative width."""
    widths = []

    def relu(pre_activation: Tensor) -> Tensor:
        widths.append(corner_widths(pre_activation, corner))
        return pre_activation.relu()

    network.forward(inputs, relu)
    return widths
