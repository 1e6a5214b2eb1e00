"""Descent on the likelihood of independent components, in relative steps: a mixture M becomes (I + a D) M.

The mean over T of the negative logarithm of the density of the rows s = M z, less log |det M|, has the relative
gradient E psi(s) s' - I, where psi is the derivative of the former. L-BFGS goes down it, preconditioned by what the
second derivative is where the rows are independent: for each pair of rows, ((E psi'_i E s_j^2, 1), (1, E psi'_j E
s_i^2)), the H1 of Ablin, Cardoso & Gramfort 2018. Their python-picard computes in float64 and on the CPU; this descent
stays on the device and in the precision of its rows. It lets the factors of its two large products be rounded: a step
is short beside the rows that it moves, and the gradient is a mean over T.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from victims.training.hardware import products_in

FLAT = 1e-3
"""A likelihood is at its maximum when no entry of its relative gradient is larger."""
MEMORY, HALVINGS = 7, 10
"""How many former steps say how the gradient changes, and how often a step is halved that does not go down."""
LEAST_BEND = 0.01
"""Smallest eigenvalue of the preconditioner's blocks."""
CACHED = 1 << 20
"""Bytes of rows whose likelihood a processor computes at a time."""

Former = tuple[Tensor, Tensor, float]
"""A step (r, r), what it changed in the gradient, and the product of both."""


@dataclass(frozen=True)
class Evaluation:
    """How likely rows (r, T) are, and how that changes with them.

    Attributes:
        cost: the sum over rows of the mean of -log p, a scalar.
        score: (r, T) its derivative by the rows, times T.
        curvature: (r,) the mean over T of the derivative of each score by its own row's entry.
    """

    cost: Tensor
    score: Tensor
    curvature: Tensor


class Likelihood(Protocol):
    """The density of rows, which are independent."""

    def evaluate(self, rows: Tensor) -> Evaluation:
        """Return how likely rows (r, T) are."""


def descended(likelihood: Likelihood, rows: Tensor, mixture: Tensor, steps: int) -> tuple[Tensor, int, bool]:
    """Return a mixture (r, r) of rows (r, T) that is likelier, the steps taken, and whether no step goes on.

    No step is taken that makes it less likely, or not finite.

    Args:
        likelihood: of the mixed rows.
        rows: (r, T), white.
        mixture: (r, r), where to begin.
        steps: at most.
    """
    at = _Place(likelihood, mixture, mixture @ rows)
    memory: deque[Former] = deque(maxlen=MEMORY)
    former: tuple[Tensor, Tensor] | None = None
    for taken in range(steps):
        gradient = at.gradient()
        if float(gradient.abs().max()) < FLAT:
            return at.mixture, taken, True
        if former is not None:
            last, before = former
            change = gradient - before
            product = float((last * change).sum())
            if product > 0:
                memory.append((last, change, product))
        for direction in _directions(gradient, at.blocks, memory):
            step = at.lower(direction)
            if step is not None:
                break
            memory.clear()
        else:
            return at.mixture, taken, True
        former = step, gradient
    return at.mixture, steps, False


class _Place:
    """Where a descent is. Its large tensors are overwritten at each step: a processor is slow at handing out new ones.

    Args:
        likelihood: of the mixed rows.
        mixture: (r, r), as in `descended`.
        mixed: (r, T), the rows that it makes.

    Attributes:
        mixture: (r, r), the present one.
        blocks: (r, r), the first diagonal entry of the preconditioner's block of each pair of rows.
    """

    def __init__(self, likelihood: Likelihood, mixture: Tensor, mixed: Tensor) -> None:
        self.mixture = mixture
        self._likelihood, self._mixed = likelihood, mixed
        self._further, self._score = torch.empty_like(mixed), torch.empty_like(mixed)
        self._cost, self.blocks = self._evaluated(mixture, mixed)

    def gradient(self) -> Tensor:
        """Return the relative gradient (r, r) here, before `lower` has tried a step."""
        with products_in("bfloat16"):
            mean = self._score @ self._mixed.T / self._mixed.shape[1]
        return mean.diagonal_scatter(mean.diagonal() - 1)

    def lower(self, direction: Tensor) -> Tensor | None:
        """Take a step (r, r) along a direction that goes down, and return it; return None if none does."""
        for halvings in range(HALVINGS):
            step: Tensor = direction / 2**halvings
            with products_in("bfloat16"):
                torch.addmm(self._mixed, step, self._mixed, out=self._further)
            mixture = self.mixture + step @ self.mixture
            cost, blocks = self._evaluated(mixture, self._further)
            if cost < self._cost:
                self.mixture, self._cost, self.blocks = mixture, cost, blocks
                self._mixed, self._further = self._further, self._mixed
                return step
        return None

    def _evaluated(self, mixture: Tensor, mixed: Tensor) -> tuple[float, Tensor]:
        """Return what is minimised and the `blocks` of mixed rows, and keep their score.

        They are computed for a few rows at a time, which stay in the cache of a processor.
        """
        few = max(1, CACHED // mixed[0].nbytes) if mixed.device.type == "cpu" else len(mixed)
        cost = -float(torch.linalg.slogdet(mixture.double()).logabsdet)
        curvatures, squares = [], []
        for rows, score in zip(mixed.split(few), self._score.split(few), strict=True):
            found = self._likelihood.evaluate(rows)
            score.copy_(found.score)
            cost += float(found.cost)
            curvatures.append(found.curvature)
            squares.append(torch.linalg.vector_norm(rows, dim=1).square() / rows.shape[1])
        return cost, torch.cat(curvatures)[:, None] * torch.cat(squares)


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
