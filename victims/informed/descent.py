"""Gradient descent on many data sets that differ in one record, as a pure function of them.

Nothing is changed in place, so the step that trains models is also the one that an attack differentiates through.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from victims.devices.upload import uploaded
from victims.informed.networks import Parameters
from victims.informed.spec import DenseSpec, Descent, SmallCNNSpec
from victims.informed.stacked import Points, logits

BETAS, EPSILON = (0.9, 0.999), 1e-8
"""torch's defaults for Adam."""


@dataclass(frozen=True)
class State:
    """k networks in training.

    Attributes:
        parameters: (k, ...) by name.
        moments: the optimiser's running averages, (k, ...) by name; none before the first step.
        step: steps done.
    """

    parameters: Parameters
    moments: tuple[Parameters, ...] = ()
    step: int = 0


@dataclass(frozen=True)
class Batch:
    """The batch of k networks in one step: points, and their classes as one-hot columns (k, outputs, b + m)."""

    points: Points
    targets: Tensor


class Problem:
    """The algorithm A on one fixed set.

    Args:
        architecture: the architecture of the networks.
        training: the algorithm.
        images: (n, C, H, W) of the fixed set, on the device and in the dtype of training.
        labels: (n,) its classes.
    """

    def __init__(
        self, architecture: DenseSpec | SmallCNNSpec, training: Descent, images: Tensor, labels: Tensor
    ) -> None:
        self.architecture, self.training, self.images = architecture, training, images
        self.targets = self.one_hot(labels)
        self.batches = math.ceil((len(images) + 1) / (training.batch_size or len(images) + 1))
        self.steps = training.epochs * self.batches

    def one_hot(self, labels: Tensor) -> Tensor:
        """Return classes (k,) as rows (k, outputs)."""
        return F.one_hot(labels.to(self.images.device), self.architecture.outputs).to(self.images.dtype)

    def orders(self, own: Sequence[torch.Generator]) -> Tensor | None:
        """Draw the order of the n + 1 records in each epoch.

        Args:
            own: (k,) each network's own generator, drawn from where the order is secret.

        Returns:
            (epochs, 1 or k, n + 1) indices on the CPU, n being the extra record; None for full batches.
        """
        if self.batches == 1:
            return None
        training, records = self.training, len(self.images) + 1
        generators = [torch.Generator().manual_seed(training.order_seed)] if training.order_seed is not None else own
        drawn = [[torch.randperm(records, generator=one) for _ in range(training.epochs)] for one in generators]
        return torch.stack([torch.stack(epochs) for epochs in drawn], 1)

    def batch(self, step: int, orders: Tensor | None, images: Tensor, targets: Tensor) -> Batch:
        """Return the batch of k networks in a step.

        Args:
            step: counted from 0.
            orders: the orders that `orders` returned.
            images: (k, C, H, W) the extra records.
            targets: (k, outputs) their classes as of `one_hot`.
        """
        n, k = len(self.images), len(images)
        if orders is None:
            rows = torch.cat([self.targets.expand(k, -1, -1), targets[:, None]], 1)
            return Batch(Points(self.images, images[:, None]), rows.mT.contiguous())
        epoch, index = divmod(step, self.batches)
        size = self.training.batch_size or n + 1
        order = orders[epoch, :, index * size : (index + 1) * size]
        if len(order) == 1:
            fixed = uploaded(order[0][order[0] < n], images.device)
            m = order.shape[1] - len(fixed)  # 1 where the batch holds the extra record, else 0
            rows = torch.cat([self.targets[fixed].expand(k, -1, -1), targets[:, None][:, :m]], 1)
            return Batch(Points(self.images[fixed], images[:, None][:, :m]), rows.mT.contiguous())
        order = uploaded(order, images.device)
        extra, fixed = (order == n)[:, :, None], order.clamp_max(n - 1)
        points = torch.where(extra[..., None, None], images[:, None], self.images[fixed])
        rows = torch.where(extra, targets[:, None], self.targets[fixed])
        return Batch(Points(self.images[:0], points), rows.mT.contiguous())

    def advance(self, state: State, batch: Batch, *, create_graph: bool = False) -> State:
        """Return the state after one step; with `create_graph`, as a differentiable function of state and batch."""
        parameters = state.parameters
        if not create_graph:
            parameters = {name: value.detach().requires_grad_() for name, value in parameters.items()}
        with torch.enable_grad():
            outputs = logits(self.architecture, parameters, batch.points)
            # the gradient of each network's mean cross-entropy in its logits
            slopes = (torch.softmax(outputs, 1) - batch.targets) / outputs.shape[2]
            if not create_graph:
                slopes = slopes.detach()  # of one record they are the last bias's gradient themselves
            gradients = torch.autograd.grad(outputs, list(parameters.values()), slopes, create_graph=create_graph)
        named = dict(zip(parameters, gradients, strict=True))
        step = _adam if self.training.optimizer == "adam" else _sgd
        return step(self.training, state, named)

    def run(self, start: Parameters, orders: Tensor | None, images: Tensor, targets: Tensor) -> Parameters:
        """Return the parameters (k, ...) of k networks trained from `start`; other arguments are as for `batch`."""
        state = State(start)
        batch = self.batch(0, orders, images, targets)
        for step in range(self.steps):
            if step and orders is not None:
                batch = self.batch(step, orders, images, targets)
            state = self.advance(state, batch)
        return state.parameters


def _sgd(training: Descent, state: State, gradients: Parameters) -> State:
    """Return the state after one step of torch.optim.SGD with momentum."""
    velocity = gradients
    if state.moments:
        momentum, before = training.momentum, state.moments[0]
        velocity = {name: torch.add(value, before[name], alpha=momentum) for name, value in gradients.items()}
    moved = {name: torch.add(value, velocity[name], alpha=-training.lr) for name, value in state.parameters.items()}
    return State(moved, (velocity,), state.step + 1)


def _adam(training: Descent, state: State, gradients: Parameters) -> State:
    """Return the state after one step of torch.optim.Adam."""
    step = state.step + 1
    zeros = {name: torch.zeros_like(value) for name, value in gradients.items()}
    first, second = state.moments or (zeros, zeros)
    first = {name: torch.lerp(first[name], value, 1 - BETAS[0]) for name, value in gradients.items()}
    second = {name: torch.lerp(second[name], value.square(), 1 - BETAS[1]) for name, value in gradients.items()}
    rate, correction = training.lr / (1 - BETAS[0] ** step), math.sqrt(1 - BETAS[1] ** step)
    moved = {
        name: value - rate * first[name] / (_root(second[name]) / correction + EPSILON)
        for name, value in state.parameters.items()
    }
    return State(moved, (first, second), step)


def _root(square: Tensor) -> Tensor:
    """Return the square root, whose gradient at 0 is 0; sqrt's own is infinite there, and NaN in a product with 0."""
    zero = square == 0
    return square.masked_fill(zero, 1).sqrt().masked_fill(zero, 0)
