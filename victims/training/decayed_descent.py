"""The accelerated recipe for weight decay: Adam on the whole set with a falling learning rate.

Plain descent forgets its initial values at the rate lr wd, 1e5 epochs and more for the papers' decays. Where
mean loss + (wd / 2) ||theta||^2 ends up does not depend on the road as much: at a stationary point the coefficients
follow from the loss (Buzaglo et al. 2023, Section 3). The part of W1 outside the data's span, which decay alone
touches, is zero at every such point and starts there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from victims.losses import margins, sample_losses
from victims.spec import DecayedDescent, Loss
from victims.training.state import Figures, TrainState

BETAS = (0.9, 0.999)
EPSILON = 1e-10


class DecayedDescentAlgorithm:
    """Adam (Kingma & Ba 2015) on the gradient of the whole objective, decay included."""

    def __init__(self, spec: DecayedDescent, loss: Loss) -> None:
        self.spec, self.loss, self.steps = spec, loss, spec.steps

    def start(self, state: TrainState) -> None:
        """Start both running averages at zero, and drop what decay alone would remove."""
        state.velocity = [torch.zeros_like(parameter) for parameter in (*state.model.parameters(),) * 2]
        state.outside_scale = torch.zeros_like(state.outside_scale)

    def step(self, state: TrainState, inputs: Tensor, labels: Tensor) -> Figures:
        """Advance by one step of Adam."""
        parameters = list(state.model.parameters())
        outputs = state.model(inputs)
        loss = sample_losses(self.loss, outputs, labels).mean()
        gradients = torch.autograd.grad(loss, parameters)
        start, end = self.spec.rate
        rate = start * (end / start) ** (state.step / self.steps)
        firsts, seconds = state.velocity[: len(parameters)], state.velocity[len(parameters) :]
        unbiased, unbiased_square = (1 - beta ** (state.step + 1) for beta in BETAS)
        with torch.no_grad():
            for parameter, gradient, first, second in zip(parameters, gradients, firsts, seconds, strict=True):
                total = gradient.add(parameter, alpha=self.spec.weight_decay)
                first.lerp_(total, 1 - BETAS[0])
                second.lerp_(total.square(), 1 - BETAS[1])
                size = (second / unbiased_square).sqrt_().add_(EPSILON)
                parameter.addcdiv_(first, size, value=-rate / unbiased)
        return Figures(loss.detach(), margins(outputs.detach(), labels))
