"""Training run forwards and backwards: the gradient of its end in the record that was added.

Tian et al. 2025 (SimuDy) do so for all images of a training at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from attacks.optimisation.lockstep import minimise_in_lockstep
from victims.informed.descent import Problem, State
from victims.informed.networks import Parameters


@dataclass(frozen=True)
class Unrolled:
    """Training on the fixed set and one more record, as a function of that record, for several records at once.

    Attributes:
        problem: the algorithm A on the fixed set.
        start: the initial network of all of them, by parameter name.
        orders: the orders of mini-batches that `Problem.orders` returns.
    """

    problem: Problem
    start: Parameters
    orders: Tensor | None

    def distance(self, images: Tensor, targets: Tensor, released: Parameters) -> tuple[Tensor, Tensor]:
        """Return ||A(D_- and the record) - theta||^2 (k,), and its gradient (k, C, H, W) by the records.

        Every state of the forward run is kept, and each step is run again to be differentiated: memory grows with the
        number of parameters and of steps, not with the size of the fixed set.

        Args:
            images: (k, C, H, W) the records.
            targets: (k, outputs) their classes, one-hot.
            released: theta by parameter name, (k, ...).
        """
        k, problem, states = len(images), self.problem, []
        state = State({name: value.expand(k, *value.shape) for name, value in self.start.items()})
        for step in range(problem.steps):
            states.append(state)
            state = problem.advance(state, problem.batch(step, self.orders, images, targets))
        residual = [value - released[name] for name, value in state.parameters.items()]
        distance = torch.stack([value.square().flatten(1).sum(1) for value in residual]).sum(0)
        gradient = torch.zeros_like(images)
        slopes = [2 * value for value in residual]  # of the distance in the state after the step, parameters first
        slopes += [torch.zeros_like(value) for value in _tensors(state)[len(slopes) :]]
        for step in reversed(range(problem.steps)):
            records, before = images.detach().requires_grad_(), _leaves(states.pop())
            batch = problem.batch(step, self.orders, records, targets)
            after = problem.advance(before, batch, create_graph=True)
            inputs = [records, *_tensors(before)]
            own, *slopes = torch.autograd.grad(_tensors(after), inputs, slopes, materialize_grads=True)
            gradient += own
        return distance, gradient


def _tensors(state: State) -> list[Tensor]:
    """Return the tensors of a state, parameters first."""
    return [*state.parameters.values(), *(value for moment in state.moments for value in moment.values())]


def _leaves(state: State) -> State:
    """Return the same state, detached, whose tensors have gradients."""

    def leaf(named: Parameters) -> Parameters:
        return {name: value.detach().requires_grad_() for name, value in named.items()}

    return replace(state, parameters=leaf(state.parameters), moments=tuple(leaf(one) for one in state.moments))


@dataclass(frozen=True)
class NearestRecords:
    """The records on which training ends nearest to k released models, as far as k searches found them.

    Attributes:
        images: (k, C, H, W) in [0, 1].
        distances: (k,) ||A(D_- and the image) - theta||^2.
        evaluations: number of evaluations of the distance and its gradient, of all searches.
    """

    images: Tensor
    distances: Tensor
    evaluations: int


def search(
    unrolled: Unrolled,
    images: Tensor,
    targets: Tensor,
    released: Parameters,
    evaluations: int,
    expired: Callable[[int], bool] = lambda count: False,
) -> NearestRecords:
    """Return the k records of smallest distance, each for its own released model, with pixels in [0, 1].

    Args:
        unrolled: the training.
        images: (k, C, H, W) starts of the search.
        targets: (k, outputs) their classes, one-hot.
        released: theta by parameter name, (k, ...).
        evaluations: the largest number of evaluations for a record.
        expired: called after every round with the number of evaluations so far; returns whether to end there.
    """
    stayed = _stayed(unrolled, released)

    def evaluate(problems: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        chosen = torch.from_numpy(problems).to(images.device)
        guesses = torch.from_numpy(points).to(images).view(-1, *images.shape[1:])
        theta = {name: value[chosen] for name, value in released.items()}
        distances, gradients = unrolled.distance(guesses, targets[chosen], theta)
        slopes = gradients.double().flatten(1)
        if stayed is not None:
            slopes = slopes.masked_fill(stayed[chosen], 0)
        return distances.double().cpu().numpy(), slopes.cpu().numpy()

    starts = images.double().flatten(1).cpu().numpy()
    ended, count = minimise_in_lockstep(evaluate, starts, evaluations, expired)
    distances, _ = evaluate(np.arange(len(ended)), ended)
    return NearestRecords(
        torch.from_numpy(ended).to(images).view_as(images), torch.from_numpy(distances), count + len(distances)
    )


def _stayed(unrolled: Unrolled, released: Parameters) -> Tensor | None:
    """Return a mask (k, d) of pixels whose weights in layer 1 equal the initial ones; None where this shows nothing.

    Adam moves a weight by about its learning rate however small the gradient is. A pixel whose weights stayed is 0 in
    every record, and the distance leaps as soon as a guess is not 0 there: no gradient foretells that.
    """
    weight = released["layers.0.weight"]
    if unrolled.problem.training.optimizer != "adam" or weight.ndim > 3:
        return None
    return (weight == unrolled.start["layers.0.weight"]).all(1)
