"""The accelerated recipe: normalised gradient descent at a held margin.

After the data are fitted, gradient descent on the logistic loss converges slowly to the KKT direction of the margin
problem (Lyu & Li 2020; Haim et al. 2022, eqs. 2-5). Normalised steps along g = sum_i softmax(-margin)_i y_i grad
Phi(x_i) reach it in thousands of steps instead of a million; with several classes the sum is over pairs of a sample and
a rival class. Rescaling theta, which does not change the classifier, keeps the loss at the value at which the papers'
training ends.
"""

from __future__ import annotations

import torch
from torch import Tensor

from victims.equations.losses import rival_margins
from victims.recipes.geometric import geometric
from victims.spec import NormalizedDescent
from victims.training.state import Figures, TrainState, norm


class NormalizedDescentAlgorithm:
    """Normalised gradient descent with momentum; the smallest margin is held at `spec.margin` by rescaling."""

    def __init__(self, spec: NormalizedDescent) -> None:
        self.spec = spec
        self.steps = spec.steps

    def start(self, state: TrainState) -> None:
        """Start the running average of the steps at zero."""
        state.velocity = [torch.zeros_like(parameter) for parameter in state.model.parameters()]

    def step(self, state: TrainState, inputs: Tensor, labels: Tensor) -> Figures:
        """Rescale to the held margin, then step by rate * ||theta|| along the averaged normalised direction."""
        parameters = list(state.model.parameters())
        before = rival_margins(state.model(inputs), labels)
        depth = len(state.model.layers)
        with torch.no_grad():
            smallest = before.min()
            held = torch.where(smallest > self.spec.margin, self.spec.margin / smallest, torch.ones_like(smallest))
            scale = held ** (1 / depth)
            pairs = before * held
            weights = torch.softmax(-pairs.flatten(), 0).view_as(pairs)
        gradients = torch.autograd.grad((weights * before).sum(), parameters)
        with torch.no_grad():
            for parameter, gradient, degree in zip(parameters, gradients, state.model.degrees(), strict=True):
                parameter.mul_(scale**degree)
                gradient.mul_(scale ** (depth - degree))  # the gradient at the rescaled point
            state.outside_scale = state.outside_scale * scale
            outside = state.outside_norm * state.outside_scale
            whole = torch.sqrt(norm(parameters) ** 2 + outside**2)
            size = geometric(self.spec.rate, state.step, self.steps) * whole / norm(gradients)
            momentum = self.spec.momentum
            for parameter, gradient, velocity in zip(parameters, gradients, state.velocity, strict=True):
                velocity.mul_(momentum).add_(gradient * size, alpha=1 - momentum)
                parameter.add_(velocity)
        # log(1 + sum_j exp(-margin_j)) is the cross-entropy; with one rival, the logistic loss
        loss = torch.nn.functional.softplus(torch.logsumexp(-pairs, 1)).mean()
        return Figures(loss, pairs.amin(1))
