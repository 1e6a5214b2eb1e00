"""The accelerated recipe for weight decay: normalised gradient descent at the scale where the objective is smallest.

Plain descent forgets its initial values at the rate lr wd, 1e5 epochs and more for the papers' decays. A stationary
point of mean loss + (wd / 2) ||theta||^2 (Buzaglo et al. 2023, Section 3) has theta along the negative gradient of the
loss, and the scale at which their lengths agree is the smallest objective's along the ray through theta: so each step
first moves theta to that scale, which takes the outputs alone, and then turns it by a normalised step, as at a held
margin.
"""

from __future__ import annotations

import math

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from victims.equations.losses import margins, sample_losses
from victims.recipes.geometric import geometric
from victims.spec import DecayedDescent, Loss
from victims.training.hardware import products_in
from victims.training.state import Figures, TrainState, norm

WIDEST = 0.3
"""Largest change, up or down, of the logarithm of theta's scale in one step."""


class DecayedDescentAlgorithm:
    """Normalised gradient descent with momentum on mean loss + (wd / 2) ||theta||^2."""

    def __init__(self, spec: DecayedDescent, loss: Loss) -> None:
        self.spec, self.loss, self.steps = spec, loss, spec.steps

    def start(self, state: TrainState) -> None:
        """Start the running average of the steps at zero, and drop what decay alone would remove."""
        state.velocity = [torch.zeros_like(parameter) for parameter in state.model.parameters()]
        state.outside_scale = torch.zeros_like(state.outside_scale)

    def step(self, state: TrainState, inputs: Tensor, labels: Tensor) -> Figures:
        """Move to the best scale, then step by rate * ||theta|| along the averaged normalised direction."""
        with products_in(self.spec.products):
            return self._step(state, inputs, labels)

    def _step(self, state: TrainState, inputs: Tensor, labels: Tensor) -> Figures:
        parameters = list(state.model.parameters())
        outputs = state.model(inputs)
        depth = len(state.model.layers)
        # All that a step reads on the host, in one wait: two dozen evaluations of the outputs' loss would be as many.
        told = [outputs.detach().flatten(), labels, norm(parameters).detach()[None]]
        *read, size = torch.cat([part.double() for part in told]).cpu().split([outputs.numel(), len(labels), 1])
        scale = self._best_scale(read[0].view_as(outputs), read[1].long(), float(size) ** 2, depth)
        scaled = (outputs.detach() * scale**depth).requires_grad_()
        loss = sample_losses(self.loss, scaled, labels).mean()
        (slope,) = torch.autograd.grad(loss, scaled)
        gradients = torch.autograd.grad(outputs, parameters, -slope * scale**depth)
        with torch.no_grad():
            for parameter, gradient, degree in zip(parameters, gradients, state.model.degrees(), strict=True):
                parameter.mul_(scale**degree)
                gradient.div_(scale**degree)  # the gradient at the rescaled point
            size = geometric(self.spec.rate, state.step, self.steps) * norm(parameters) / norm(gradients)
            momentum = self.spec.momentum
            for parameter, gradient, velocity in zip(parameters, gradients, state.velocity, strict=True):
                velocity.mul_(momentum).add_(gradient * size, alpha=1 - momentum)
                parameter.add_(velocity)
        return Figures(loss.detach(), margins(scaled.detach(), labels))

    def _best_scale(self, outputs: Tensor, labels: Tensor, square_norm: float, depth: int) -> float:
        """Return the factor c that minimises the objective at c theta.

        It is 1 while the loss exceeds half its value at theta = 0, because 0 is a minimum, too.
        """

        def loss(logarithm: float) -> float:
            return float(sample_losses(self.loss, outputs * math.exp(depth * logarithm), labels).mean())

        def objective(logarithm: float) -> float:
            return loss(logarithm) + self.spec.weight_decay / 2 * math.exp(2 * logarithm) * square_norm

        if loss(0.0) > loss(-math.inf) / 2:
            return 1.0
        best = minimize_scalar(objective, bounds=(-WIDEST, WIDEST), method="bounded", options={"xatol": 1e-6})
        return math.exp(best.x)
