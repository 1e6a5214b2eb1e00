"""A training of a whole candidate set, run forwards from the known start and backwards for its gradient.

Tian et al. 2025 (SimuDy) also differentiate a training's end by all its images.

theta_{t+1} = theta_t - eta_t v_{t+1}, v_{t+1} = mu v_t + g_t + lambda theta_t (torch.optim.SGD), with
g_t = sum_i w_i grad loss(theta_t; x_i, y_i): the batches' order is not known, and every step takes their mean. The
backward sweep needs grad <g_t, u>, the gradient of the loss's directional derivative along u (Pearlmutter 1994).
Every sqrt(T)-th state is kept and the steps between are run again (Griewank and Walther 2000, Algorithm 799), so that
memory holds 2 sqrt(T) states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from victims.equations.gates import smooth_gate_relu
from victims.equations.network import Network
from victims.ordinary.descent import relative_rate
from victims.recipes import Ordinary

State = tuple[list[Tensor], list[Tensor]]
"""The parameters theta, weights before biases, and the velocities v."""


@dataclass(frozen=True)
class UnrolledTraining:
    """The first steps of a training by SGD, and decay alone after them.

    Attributes:
        start: the network at the beginning, on the coordinates of the inputs, with biases.
        rates: eta_t of the steps that are run.
        momentum: mu.
        weight_decay: lambda.
        left: what decay leaves of the parameters after the last step that is run, in (0, 1].
        alpha: sharpness of the gates sigmoid(alpha z) of the training.
    """

    start: Network
    rates: Sequence[float]
    momentum: float
    weight_decay: float
    left: float
    alpha: float

    @classmethod
    def of(cls, start: Network, training: Ordinary, images: int, most: int, alpha: float) -> UnrolledTraining:
        """Return the replay of a recipe.

        Args:
            start: the network at the beginning, on coordinates.
            training: by SGD.
            images: their number n, which says how many steps an epoch has.
            most: the largest number of steps that are run.
            alpha: sharpness of the gates.
        """
        steps = training.epochs * math.ceil(images / training.batch_size)
        # a share of 1: with `step` of `steps` the last bit of a cosine is another
        rates = [training.lr * relative_rate(training.schedule, step / steps, 1) for step in range(steps)]
        shrinking = training.weight_decay / (1 - training.momentum)
        left = math.prod(1 - rate * shrinking for rate in rates[most:])
        return cls(start, rates[:most], training.momentum, training.weight_decay, left, alpha)

    def end(self, inputs: Tensor, targets: Tensor, weights: Tensor) -> list[Tensor]:
        """Return the parameters at the end, weights before biases; they have a gradient by inputs and weights.

        Args:
            inputs: (m, r) on the coordinates of the start.
            targets: (m, C) one-hot.
            weights: (m,) of the examples in every batch's mean; they sum to 1.
        """
        ended: tuple[Tensor, ...] = _Run.apply(self, inputs, targets, weights)
        return list(ended)

    def begin(self) -> State:
        """Return the state before the first step.

        Raises:
            ValueError: a layer has no bias.
        """
        if any(bias is None for bias in self.start.biases):
            raise ValueError("a replay is of networks with a bias in every layer")
        theta = [*self.start.weights, *(bias for bias in self.start.biases if bias is not None)]
        return theta, [torch.zeros_like(one) for one in theta]

    @torch.no_grad()
    def step(self, step: int, state: State, inputs: Tensor, targets: Tensor, weights: Tensor) -> State:
        """Return the state after a step.

        Args:
            step: counted from 0.
            state: the state before the step.
            inputs: (m, r), see `end`; likewise targets (m, C) and weights (m,).
            targets: (m, C) one-hot.
            weights: (m,).
        """
        theta, velocities = state
        gradients = self._gradients(theta, inputs, targets, weights)
        moved = [
            torch.add(gradient, one, alpha=self.weight_decay).add_(velocity, alpha=self.momentum)
            for gradient, one, velocity in zip(gradients, theta, velocities, strict=True)
        ]
        return [one.sub(by, alpha=self.rates[step]) for one, by in zip(theta, moved, strict=True)], moved

    def _gradients(self, theta: list[Tensor], inputs: Tensor, targets: Tensor, weights: Tensor) -> list[Tensor]:
        """Return g_t, weights before biases."""
        depth = len(theta) // 2
        gates = list[Tensor]()

        def activation(before: Tensor) -> Tensor:
            gates.append(torch.sigmoid(self.alpha * before))
            activations.append(before.relu())
            return activations[-1]

        activations = [inputs]
        network = Network(tuple(theta[:depth]), tuple(theta[depth:]))
        outputs = network.forward(inputs, activation)
        signals = (outputs.softmax(1) - targets) * weights[:, None]
        errors, _ = network.back_propagate(signals, lambda layer, ungated: ungated * gates[layer])
        by_weights = [error.T @ before for error, before in zip(errors, activations, strict=True)]
        return [*by_weights, *(error.sum(0) for error in errors)]

    def along(
        self, theta: list[Tensor], direction: list[Tensor], inputs: Tensor, targets: Tensor, weights: Tensor
    ) -> Tensor:
        """Return <g_t, u>, a scalar tensor that can be differentiated by all but the direction u.

        Args:
            theta: the parameters, weights before biases.
            direction: u, tensors of the same shapes.
            inputs: (m, r).
            targets: (m, C) one-hot.
            weights: (m,).
        """
        depth = len(theta) // 2
        hidden, tangent = inputs, torch.zeros_like(inputs)
        for layer in range(depth):
            weight, bias = theta[layer], theta[depth + layer]
            before = torch.addmm(bias, hidden, weight.T)
            tangent = torch.addmm(direction[depth + layer], hidden, direction[layer].T) + tangent @ weight.T
            if layer < depth - 1:
                hidden = smooth_gate_relu(before, self.alpha)
                tangent = torch.sigmoid(self.alpha * before) * tangent
        return (((before.softmax(1) - targets) * tangent).sum(1) * weights).sum()


class _Run(torch.autograd.Function):
    """`UnrolledTraining.end`, with checkpoints."""

    @staticmethod
    def forward(
        ctx: Any, replay: UnrolledTraining, inputs: Tensor, targets: Tensor, weights: Tensor
    ) -> tuple[Tensor, ...]:
        """Return the parameters at the end."""
        examples = inputs.detach(), targets, weights.detach()
        ctx.every = max(1, math.isqrt(len(replay.rates)))
        ctx.replay, ctx.examples, ctx.kept = replay, examples, {}
        state = replay.begin()
        for step in range(len(replay.rates)):
            if step % ctx.every == 0:
                ctx.kept[step] = state
            state = replay.step(step, state, *examples)
        return tuple(replay.left * one for one in state[0])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, None, Tensor]:
        """Return the gradients by inputs and weights."""
        replay, every = ctx.replay, ctx.every
        inputs, targets, weights = ctx.examples
        slopes = [replay.left * one for one in gradients]
        velocities = [torch.zeros_like(one) for one in gradients]
        by_inputs, by_weights = torch.zeros_like(inputs), torch.zeros_like(weights)
        for first in reversed(range(0, len(replay.rates), every)):
            last = min(first + every, len(replay.rates)) - 1
            states = [ctx.kept.pop(first)]
            for step in range(first, last):
                states.append(replay.step(step, states[-1], *ctx.examples))
            for step in range(last, first - 1, -1):
                theta, _ = states.pop()
                velocities = [
                    velocity.sub(slope, alpha=replay.rates[step])
                    for velocity, slope in zip(velocities, slopes, strict=True)
                ]
                with torch.enable_grad():
                    leaves = [one.detach().requires_grad_() for one in (inputs, weights, *theta)]
                    along = replay.along(leaves[2:], velocities, leaves[0], targets, leaves[1])
                    own, weighed, *curved = torch.autograd.grad(along, leaves)
                by_inputs += own
                by_weights += weighed
                slopes = [
                    slope + bent + replay.weight_decay * velocity
                    for slope, bent, velocity in zip(slopes, curved, velocities, strict=True)
                ]
                velocities = [replay.momentum * velocity for velocity in velocities]
        return None, by_inputs, None, by_weights
