"""Training run forwards and backwards: what the trained parameters say of the record that was added."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from victims.informed.descent import Problem, State
from victims.informed.networks import Parameters


@dataclass(frozen=True)
class Unrolled:
    """k trainings, each with one record added to the fixed set, as a function of these records.

    Attributes:
        problem: the algorithm A on the fixed set.
        start: the initial parameters (k, ...) by name.
        orders: of mini-batches, as of `Problem.orders`.
    """

    problem: Problem
    start: Parameters
    orders: Tensor | None

    def distance(self, images: Tensor, targets: Tensor, released: Parameters) -> tuple[Tensor, Tensor]:
        """Return ||A(D_- and the record) - theta||^2, (k,), and its gradient in the records, (k, C, H, W).

        Every state of the forward run is kept, and each step is run again to be differentiated: memory grows with the
        number of parameters and steps, not with that of the records.
        """
        problem, state, states = self.problem, State(self.start), []
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
    return [*state.parameters.values(), *(value for moment in state.moments for value in moment.values())]


def _leaves(state: State) -> State:
    def leaf(named: Parameters) -> Parameters:
        return {name: value.detach().requires_grad_() for name, value in named.items()}

    return replace(state, parameters=leaf(state.parameters), moments=tuple(leaf(one) for one in state.moments))


@dataclass(frozen=True)
class Found:
    """Where a search ended.

    Attributes:
        image: (C, H, W) in [0, 1].
        distance: ||A(D_- and the image) - theta||^2.
        evaluations: of the distance and its gradient.
    """

    image: Tensor
    distance: float
    evaluations: int


def search(unrolled: Unrolled, image: Tensor, target: Tensor, released: Parameters, evaluations: int) -> Found:
    """Minimise the distance over one record by L-BFGS-B, with pixels in [0, 1].

    Args:
        unrolled: one training.
        image: (C, H, W) where to start.
        target: (outputs,) its class as a one-hot row.
        released: theta, (1, ...) by name.
        evaluations: the most.
    """
    scale = 0.0  # the objective is 1 at the start: the solver's tolerances are absolute

    def objective(pixels: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal scale
        guess = torch.from_numpy(pixels).to(image).view(1, *image.shape)
        distance, gradient = unrolled.distance(guess, target[None], released)
        scale = scale or 1 / max(float(distance), torch.finfo(image.dtype).tiny)
        return float(distance) * scale, gradient.double().flatten().cpu().numpy() * scale

    solved = minimize(
        objective,
        image.double().flatten().cpu().numpy(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, 1)] * image.numel(),
        options={"maxfun": evaluations, "maxiter": evaluations, "maxcor": 30, "ftol": 1e-12, "gtol": 1e-12},
    )
    ended = torch.from_numpy(solved.x).to(image).view_as(image)
    return Found(ended, float(solved.fun) / scale, int(solved.nfev))
