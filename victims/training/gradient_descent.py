"""The papers' recipe: (mini-batch) gradient descent with a constant learning rate.

Haim et al. 2022, Section 5.1; Buzaglo et al. 2023, Section 4, with other losses and coupled weight decay.
"""

from __future__ import annotations

import math
import operator
from functools import partial

import torch
from torch import Tensor

from victims.devices.upload import uploaded
from victims.equations.losses import margins, sample_losses
from victims.spec import GradientDescent, Loss
from victims.training.hardware import Repeated
from victims.training.state import Figures, TrainState


class GradientDescentAlgorithm:
    """Plain gradient descent on the mean loss plus (wd / 2) ||theta||^2."""

    def __init__(self, spec: GradientDescent, loss: Loss, n: int, seed: int) -> None:
        self.spec, self.loss, self.n, self.seed = spec, loss, n, seed
        self.batches = 1 if spec.batch_size is None else math.ceil(n / spec.batch_size)
        self.steps = spec.epochs * self.batches
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.long)
        self._given: tuple[object, ...] = ()

    def start(self, state: TrainState) -> None:
        """Nothing to carry: no momentum."""

    def step(self, state: TrainState, inputs: Tensor, labels: Tensor) -> Figures:
        """Advance theta by -lr times the gradient of the loss on the whole set, or on this step's mini-batch."""
        if self.spec.batch_size is not None:
            chosen = self._batch(state.step, self.spec.batch_size, inputs.device)
            return self._descend(state, inputs[chosen], labels[chosen])
        given = (state, inputs, labels)
        if len(self._given) != len(given) or any(map(operator.is_not, given, self._given)):
            self._given, self._whole = given, Repeated(partial(self._descend, *given), inputs.device)
        return self._whole()

    def _descend(self, state: TrainState, inputs: Tensor, labels: Tensor) -> Figures:
        """Advance theta by -lr times the gradient of the loss on these samples; the figures are those before."""
        parameters = list(state.model.parameters())
        outputs = state.model(inputs)
        loss = sample_losses(self.loss, outputs, labels).mean()
        gradients = torch.autograd.grad(loss, parameters)
        shrunk = 1 - self.spec.lr * self.spec.weight_decay
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.mul_(shrunk).add_(gradient, alpha=-self.spec.lr)
            state.outside_scale.mul_(shrunk)
        return Figures(loss.detach(), margins(outputs.detach(), labels))

    def _batch(self, step: int, size: int, device: torch.device) -> Tensor:
        """Return the indices of this step's mini-batch; every epoch is one permutation, drawn from its own seed."""
        epoch, batch = divmod(step, self.batches)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
            order = torch.randperm(self.n, generator=generator)
            self._epoch, self._order = epoch, uploaded(order, device)
        return self._order[batch * size : (batch + 1) * size]
