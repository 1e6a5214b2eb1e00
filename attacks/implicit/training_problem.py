"""The training problem that the lower level solves, as a function of one flat vector of parameters.

A minimum of a ReLU network with weight decay lies on the kinks of the ReLU (a neuron grows until the images that it
should not see have pre-activation zero), where the Hessian does not exist and no gradient vanishes. The lower level
therefore replaces the ReLU by softplus(b z) / b, which differs from it by at most log(2) / b.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from victims.equations.network import Network


@dataclass(frozen=True)
class TrainingProblem:
    """E(theta; x, t) = (1/n) sum_i [log(1 + exp Phi_i) - t_i Phi_i] + (wd/2) ||theta||^2, Phi_i = Phi(theta; x_i).

    Attributes:
        network: gives the shapes of the parameters; its values do not matter.
        weight_decay: wd >= 0, of all parameters, biases too.
        sharpness: b > 0 of the softplus.
    """

    network: Network
    weight_decay: float
    sharpness: float

    def flat(self, network: Network) -> Tensor:
        """Return a network's parameters as one vector (p,): W_1, b_1, W_2, ..."""
        pairs = zip(network.weights, network.biases, strict=True)
        return torch.cat([tensor.flatten() for pair in pairs for tensor in pair if tensor is not None])

    def unflat(self, theta: Tensor) -> Network:
        """Return the network whose parameters are theta (p,)."""
        weights, biases, place = [], [], 0
        for weight, bias in zip(self.network.weights, self.network.biases, strict=True):
            weights.append(theta[place : place + weight.numel()].view(weight.shape))
            place += weight.numel()
            biases.append(None if bias is None else theta[place : place + bias.numel()])
            place += 0 if bias is None else bias.numel()
        return Network(tuple(weights), tuple(biases))

    def outputs(self, theta: Tensor, inputs: Tensor) -> Tensor:
        """Return Phi (n,) of inputs (n, d)."""
        return self.unflat(theta).forward(inputs, partial(F.softplus, beta=self.sharpness))[:, 0]

    def loss(self, theta: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return E, a scalar, for inputs (n, d) and targets (n,) in [0, 1]."""
        outputs = self.outputs(theta, inputs)
        return (F.softplus(outputs) - targets * outputs).mean() + self.weight_decay / 2 * theta.square().sum()

    def slope(self, theta: Tensor, direction: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
        """Return <grad_theta E, direction>, a scalar that is differentiable in inputs and targets.

        Args:
            theta: (p,) parameters.
            direction: (p,).
            inputs: (n, d).
            targets: (n,) in [0, 1].
        """
        slope: Tensor = torch.func.jvp(lambda at: self.loss(at, inputs, targets), (theta,), (direction,))[1]
        return slope
