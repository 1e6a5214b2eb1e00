"""Descent on the likelihood of independent components, in relative steps: a mixture M becomes (I + a D) M.

The mean over T of the negative logarithm of the density of the rows s = M z, less log |det M|, has the relative
gradient E psi(s) s' - I, where psi is the derivative of the former. L-BFGS goes down it, preconditioned by what the
second derivative is where the rows are independent: for each pair of rows, ((E psi'_i E s_j^2, 1), (1, E psi'_j E
s_i^2)), the H1 of Ablin, Cardoso & Gramfort 2018. Their python-picard computes in float64 and on the CPU; this descent
stays on the device and in the precision of its rows.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

import torch
from torch import Tensor

FLAT = 1e-3
"""A likelihood is at its maximum when no entry of its relative gradient is larger."""
MEMORY, HALVINGS = 7, 10
"""How many former steps say how the gradient bends, and how often a step is halved that does not go down."""
LEAST_BEND = 0.01
"""Smallest eigenvalue of the preconditioner's blocks."""

Former = tuple[Tensor, Tensor, float]
"""A step (r, r), what it changed in the gradient, and the product of both."""


class Likelihood(Protocol):
    """The density of rows, which are independent."""

    def cost(self, rows: Tensor) -> Tensor:
        """Return the sum over rows (r, T) of the mean of -log p, a scalar."""

    def score(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return its derivative by the rows, times T, (r, T), and the mean (r,) of the derivative of that."""


def descended(likelihood: Likelihood, rows: Tensor, mixture: Tensor, steps: int) -> tuple[Tensor, int, bool]:
    """Return a mixture (r, r) of rows (r, T) that is likelier, the steps taken, and whether no step goes on.

    No step is taken that makes it less likely, or not finite.

    Args:
        likelihood: of the mixed rows.
        rows: (r, T), white.
        mixture: (r, r), where to begin.
        steps: at most.
    """
    mixed, one = mixture @ rows, torch.eye(len(mixture)).to(mixture)
    cost = _cost(likelihood, mixed, mixture)
    memory: deque[Former] = deque(maxlen=MEMORY)
    former: tuple[Tensor, Tensor] | None = None
    for taken in range(steps):
        score, bend = likelihood.score(mixed)
        gradient = score @ mixed.T / rows.shape[1] - one
        if float(gradient.abs().max()) < FLAT:
            return mixture, taken, True
        if former is not None:
            step, before = former
            change = gradient - before
            product = float((step * change).sum())
            if product > 0:
                memory.append((step, change, product))
        blocks = bend[:, None] * mixed.square().mean(1)
        for direction in _directions(gradient, blocks, memory):
            found = _lower(likelihood, cost, direction, mixed, mixture)
            if found is not None:
                break
            memory.clear()
        else:
            return mixture, taken, True
        cost, mixed, mixture, step = found
        former = step, gradient
    return mixture, steps, False


def _cost(likelihood: Likelihood, mixed: Tensor, mixture: Tensor) -> float:
    """Return the negative logarithm of the likelihood, but for a constant."""
    return float(likelihood.cost(mixed).double() - torch.linalg.slogdet(mixture.double()).logabsdet)


def _lower(
    likelihood: Likelihood, cost: float, direction: Tensor, mixed: Tensor, mixture: Tensor
) -> tuple[float, Tensor, Tensor, Tensor] | None:
    """Return the cost, rows and mixture after a step along a direction, and the step; None if none goes down."""
    for halvings in range(HALVINGS):
        step = direction / 2**halvings
        moved, further = mixture + step @ mixture, mixed + step @ mixed
        lower = _cost(likelihood, further, moved)
        if lower < cost:
            return lower, further, moved, step
    return None


def _directions(gradient: Tensor, blocks: Tensor, memory: deque[Former]) -> tuple[Tensor, ...]:
    """Return what to try: the direction of L-BFGS (Nocedal & Wright 2006, algorithm 7.4), then that without memory."""
    plain = -_preconditioned(gradient, blocks)
    if not memory:
        return (plain,)
    rest, shares = gradient, []
    for step, change, product in reversed(memory):
        shares.append(float((step * rest).sum()) / product)
        rest = rest - shares[-1] * change
    direction = _preconditioned(rest, blocks)
    for (step, change, product), share in zip(memory, reversed(shares), strict=True):
        direction = direction + (share - float((change * direction).sum()) / product) * step
    return -direction, plain


def _preconditioned(gradient: Tensor, blocks: Tensor) -> Tensor:
    """Return the solution (r, r) of the blocks' equations, whose smallest eigenvalue is brought to `LEAST_BEND`.

    Args:
        gradient: (r, r).
        blocks: (r, r), the first diagonal entry of the block of each pair; the second is that of the pair turned round.
    """
    smallest = (blocks + blocks.T - ((blocks - blocks.T).square() + 4).sqrt()) / 2
    bent = blocks + (LEAST_BEND - smallest).clamp_min(0)
    solved: Tensor = (bent.T * gradient - gradient.T) / (bent * bent.T - 1)
    return solved.diagonal_scatter(gradient.diagonal() / (blocks.diagonal() + 1))
