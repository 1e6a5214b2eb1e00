"""The distance of theta(x) from the released weights (Runkel et al. 2024, eq. 2), and its gradient in the images.

The lower level may be damped: theta(x) then minimises E(x, theta) + (damping / 2) ||theta - theta*||^2. Damping makes
the minimum unique where weight decay does not: the neurons of a hidden layer that have one direction may split their
weight in any way. The distance is still zero at the images at which E is stationary at theta*. As damping grows, the
distance tends to ||grad E(x, theta*)||^2 / damping^2, gradient matching.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attacks.implicit.inverse import solve
from attacks.implicit.lower import hessian, minimise
from attacks.implicit.params import ImplicitParams
from attacks.implicit.training_problem import TrainingProblem
from victims.equations.network import Network


@dataclass(frozen=True)
class Hypergradient:
    """The upper level at one set of images.

    Attributes:
        distance: ||theta* - theta(x)||^2.
        inputs: (n, d) gradient of the distance by the images.
        targets: (n,) gradient of the distance by the targets.
        solution: theta(x), on pixels.
        relative_gradient: relative gradient of the lower level at theta(x); see `lower.Minimum`.
        residual: relative residual of the inverse-Hessian product.
        added: the damping that was added to the Hessian to make it positive definite.
    """

    distance: float
    inputs: Tensor
    targets: Tensor
    solution: Network
    relative_gradient: float
    residual: float
    added: float


def hypergradient(
    problem: TrainingProblem,
    released: Network,
    start: Network,
    inputs: Tensor,
    targets: Tensor,
    params: ImplicitParams,
    damping: float,
) -> Hypergradient:
    """Return ||theta* - theta(x)||^2 and its gradient through the minimum of the lower level.

    Both levels are solved on coordinates of the span of the images, which is exact and costs n where pixels cost d: on
    the part of W1 outside the span E is (wd/2) ||W1||^2 alone, whose minimum is known.

    Args:
        problem: the training problem on pixels.
        released: theta*, on pixels.
        start: the start of the lower level, on pixels.
        inputs: (n, d) images x, float64.
        targets: (n,) in [0, 1].
        params: tolerances and methods.
        damping: damping of the lower level.
    """
    basis = torch.linalg.qr(inputs.T).Q
    coordinates = inputs @ basis
    reduced = replace(problem, network=problem.network.on_coordinates(basis))

    inside = reduced.flat(released.on_coordinates(basis))
    outside = released.weights[0] - released.weights[0] @ basis @ basis.T
    convexity = problem.weight_decay + damping

    def loss(theta: Tensor) -> Tensor:
        return reduced.loss(theta, coordinates, targets) + damping / 2 * (theta - inside).square().sum()

    begin = reduced.flat(start.on_coordinates(basis))
    found = minimise(loss, begin, convexity, params.lower_tolerance, params.lower_steps)
    difference, outer = found.theta - inside, -problem.weight_decay / convexity * outside
    distance = float(difference.square().sum() + outer.square().sum())
    _, product = hessian(loss, found.theta)
    solved = solve(params.inverse, product, 2 * difference, params.inverse_tolerance, params.inverse_steps)

    theta, p = reduced.unflat(found.theta), reduced.unflat(solved.solution)
    solution = replace(theta, weights=(theta.weights[0] @ basis.T + outside + outer, *theta.weights[1:]))
    outer_p = 2 / (convexity + solved.damping) * outer
    direction = replace(p, weights=(p.weights[0] @ basis.T + outer_p, *p.weights[1:]))
    inputs, targets = inputs.detach().requires_grad_(), targets.detach().requires_grad_()
    slope = problem.slope(problem.flat(solution), problem.flat(direction), inputs, targets)
    by_inputs, by_targets = torch.autograd.grad(-slope, (inputs, targets))
    return Hypergradient(
        distance, by_inputs, by_targets, solution, found.relative_gradient, solved.residual, solved.damping
    )
