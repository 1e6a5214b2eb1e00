"""The distance of theta(x) from the released weights, and its gradient in the images."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attacks.implicit.inverse import solve
from attacks.implicit.lower import hessian, minimise
from attacks.implicit.problem import TrainingProblem
from attacks.stationarity.network import Network


@dataclass(frozen=True)
class Settings:
    """How exactly both levels are solved; see the fields of the same names in `attacks.bilevel.BilevelParams`."""

    inverse: str
    inverse_tolerance: float
    inverse_steps: int
    lower_tolerance: float
    lower_steps: int


@dataclass(frozen=True)
class Hypergradient:
    """The upper level at one set of images.

    Attributes:
        distance: ||theta* - theta(x)||^2.
        inputs: (n, d) its gradient in the images.
        targets: (n,) its gradient in the targets.
        solution: theta(x).
        relative_gradient: of the lower level where it stopped; see `lower.Minimum`.
        residual: relative residual of the inverse-Hessian product.
        damping: what was added to the Hessian to make it positive.
    """

    distance: float
    inputs: Tensor
    targets: Tensor
    solution: Network
    relative_gradient: float
    residual: float
    damping: float


def hypergradient(
    problem: TrainingProblem, released: Network, start: Network, inputs: Tensor, targets: Tensor, settings: Settings
) -> Hypergradient:
    """Solve the lower level and differentiate ||theta* - theta(x)||^2 through its minimum.

    Weight decay leaves W1(x) in the span of the images, and on W1's part outside of it the Hessian is wd I: both
    levels are solved on coordinates of that span, which loses nothing and costs n where the pixels cost d.

    Args:
        problem: the training problem on pixels.
        released: theta*.
        start: where the lower level starts.
        inputs: (n, d) images x, float64.
        targets: (n,) in [0, 1].
        settings: tolerances and the inverse's method.
    """
    basis = torch.linalg.qr(inputs.T).Q
    coordinates = inputs @ basis
    reduced = replace(problem, network=problem.network.on_coordinates(basis))

    def loss(theta: Tensor) -> Tensor:
        return reduced.loss(theta, coordinates, targets)

    begin = reduced.flat(start.on_coordinates(basis))
    found = minimise(loss, begin, problem.weight_decay, settings.lower_tolerance, settings.lower_steps)
    inside = reduced.flat(released.on_coordinates(basis))
    outside = released.weights[0] - released.weights[0] @ basis @ basis.T
    difference = found.theta - inside
    distance = float(difference.square().sum() + outside.square().sum())
    _, product = hessian(loss, found.theta)
    solved = solve(settings.inverse, product, 2 * difference, settings.inverse_tolerance, settings.inverse_steps)

    theta, p = reduced.unflat(found.theta), reduced.unflat(solved.solution)
    solution = replace(theta, weights=(theta.weights[0] @ basis.T, *theta.weights[1:]))
    outer = -2 / (problem.weight_decay + solved.damping) * outside
    direction = replace(p, weights=(p.weights[0] @ basis.T + outer, *p.weights[1:]))
    inputs, targets = inputs.detach().requires_grad_(), targets.detach().requires_grad_()
    slope = problem.slope(problem.flat(solution), problem.flat(direction), inputs, targets)
    by_inputs, by_targets = torch.autograd.grad(-slope, (inputs, targets))
    return Hypergradient(
        distance, by_inputs, by_targets, solution, found.relative_gradient, solved.residual, solved.damping
    )
