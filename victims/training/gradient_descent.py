"""The papers' recipe: (mini-batch) gradient descent with a constant learning rate (Haim et al. 2022, Section 5.1)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from victims.spec import GradientDescent
from victims.training.state import TrainState, logistic_loss


class GradientDescentAlgorithm:
    """Plain gradient descent on the mean logistic loss."""

    def __init__(self, spec: GradientDescent, n: int, seed: int) -> None:
        self.spec, self.n, self.seed = spec, n, seed
        self.batches = 1 if spec.batch_size is None else math.ceil(n / spec.batch_size)
        self.steps = spec.epochs * self.batches

    def start(self, state: TrainState) -> None:
        """Nothing to carry: no momentum."""

    def step(self, state: TrainState, inputs: Tensor, labels: Tensor) -> Tensor:
        """Advance theta by -lr times the gradient of the loss on the whole set, or on this step's mini-batch."""
        if self.spec.batch_size is not None:
            chosen = self._batch(state.step, self.spec.batch_size).to(inputs.device)
            inputs, labels = inputs[chosen], labels[chosen]
        parameters = list(state.model.parameters())
        margins: Tensor = labels * state.model(inputs)
        gradients = torch.autograd.grad(logistic_loss(margins), parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.add_(gradient, alpha=-self.spec.lr)
        return margins.detach()

    def _batch(self, step: int, size: int) -> Tensor:
        """Return the indices of this step's mini-batch; every epoch is one permutation, drawn from its own seed."""
        epoch, batch = divmod(step, self.batches)
        order = torch.randperm(self.n, generator=torch.Generator().manual_seed(self.seed * 1_000_003 + epoch))
        return order[batch * size : (batch + 1) * size]
