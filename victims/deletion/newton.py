"""Newton's method on the objective of a shallow model, its steps by preconditioned conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from scipy.optimize import minimize
from torch import Tensor

from victims.deletion.objective import Objective, hidden, mean, named, outputs
from victims.errors import UserError

Precondition = Callable[[Tensor], Tensor]
"""Approximates the inverse Hessian's product with a vector (p,)."""

TOLERANCE, WORST = 1e-11, 1e-9
"""Relative gradients: steps end at TOLERANCE, or, where rounding stops their progress, at WORST or below."""
STEPS = 30
"""The most Newton steps."""
HALVINGS = 20
"""How often a step is halved at most."""
ITERATIONS = 2000
"""The most steps of conjugate gradients for one Newton step."""
EXACT, ROUGH = 1e-12, 1e-3
"""Residuals, relative to the right side, at which conjugate gradients end: EXACT for one step that is released, ROUGH
for steps that are followed by others."""


def minimum(objective: Objective, start: Tensor) -> tuple[Tensor, Precondition]:
    """Return the minimum (p,) that is reached from a start, by L-BFGS and then Newton's method, and a preconditioner.

    Raises:
        UserError: no stationary point was reached.
    """

    def evaluate(point: object) -> tuple[float, object]:
        theta = torch.as_tensor(point)
        return float(objective.value(theta)), objective.gradient(theta).numpy()

    theta = start
    if not (objective.spec.loss == "squared" and objective.spec.front != "hidden"):  # ridge is one Newton step
        options = {"maxiter": 3000, "maxfun": 4000, "maxcor": 30, "ftol": 1e-13, "gtol": 1e-7}
        theta = torch.from_numpy(minimize(evaluate, start.numpy(), jac=True, method="L-BFGS-B", options=options).x)
    precondition = preconditioner(objective, theta)
    return settled(objective, theta, precondition), precondition


def settled(objective: Objective, start: Tensor, precondition: Precondition) -> Tensor:
    """Return the stationary point (p,) that Newton's method reaches from a start near it.

    Raises:
        UserError: it is not reached.
    """
    theta, best = start, objective.optimality(start)
    for _ in range(STEPS):
        if best <= TOLERANCE:
            break
        moved = _descended(objective, theta, newton_step(objective, theta, precondition, ROUGH))
        reached = objective.optimality(moved)
        if best <= WORST and reached >= best:
            break
        theta, best = moved, reached
    if not best <= WORST:
        raise UserError(f"training did not reach a stationary point (relative gradient {best:.1e}); raise the penalty")
    return theta


def newton_step(objective: Objective, theta: Tensor, precondition: Precondition, forcing: float = EXACT) -> Tensor:
    """Return -H^-1 g (p,) at theta, by conjugate gradients; they end early in a direction without curvature."""
    residual = -objective.gradient(theta)
    step = torch.zeros_like(theta)
    direction = scaled = precondition(residual)
    size, product = residual.norm(), residual @ scaled
    for _ in range(ITERATIONS):
        if residual.norm() <= forcing * size or product <= 0:
            break
        curved = objective.curvature(theta, direction)
        curvature = direction @ curved
        if curvature <= 0:
            return step if bool(step.any()) else direction
        length = product / curvature
        step, residual = step + length * direction, residual - length * curved
        scaled = precondition(residual)
        before, product = product, residual @ scaled
        direction = scaled + (product / before) * direction
    return step


def preconditioner(objective: Objective, theta: Tensor) -> Precondition:
    """Return the product with the inverse of the Gauss-Newton matrix's diagonal blocks, a block for each unit.

    For a squared loss without a hidden layer the blocks are the Hessian, and conjugate gradients take one step.
    """
    layers = []
    for seen, weights in _layers(objective, theta):
        design = torch.cat([seen, seen.new_ones(len(seen), 1)], 1)
        blocks = torch.stack([objective.scale * (design * weight[:, None]).T @ design for weight in weights])
        blocks.diagonal(dim1=1, dim2=2).add_(objective.penalty)
        layers.append(torch.linalg.cholesky(blocks))

    def precondition(vector: Tensor) -> Tensor:
        parts, parameters = [], list(named(objective.spec, objective.inputs, vector).values())
        for layer, factors in enumerate(layers):
            rows = torch.cat([parameters[2 * layer], parameters[2 * layer + 1][:, None]], 1)
            solved = torch.cholesky_solve(rows[:, :, None], factors.expand(len(rows), -1, -1))[:, :, 0]
            parts += [solved[:, :-1].flatten(), solved[:, -1]]
        return torch.cat(parts)

    return precondition


def _layers(objective: Objective, theta: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return for each layer what it sees (n, q) and the curvature of the loss in its units (units, n).

    Of a squared loss the curvature is 1 in every output, and one row stands for all of them.
    """
    spec, seen = objective.spec, objective.seen
    parameters = named(spec, objective.inputs, theta)
    inner, top = hidden(spec, parameters, seen), list(parameters.values())[-2]
    share = mean(spec, outputs(spec, parameters, seen))
    last = share.new_ones(1, len(share)) if spec.loss == "squared" else (share * (1 - share)).T
    if spec.front != "hidden":
        return [(seen, last)]
    spread = top.square().sum(0).expand(len(share), -1)
    if spec.loss == "cross-entropy":
        spread = share @ top.square() - (share @ top).square()
    return [(seen, ((1 - inner.square()).square() * spread).T), (inner, last)]


def _descended(objective: Objective, theta: Tensor, step: Tensor) -> Tensor:
    """Return theta after a step, halved until the objective does not rise beyond rounding."""
    value = float(objective.value(theta))
    for halving in range(HALVINGS):
        moved = theta + step * 0.5**halving
        if float(objective.value(moved)) <= value + 1e-12 * abs(value):
            return moved
    return theta
