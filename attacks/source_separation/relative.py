"""Descent on the likelihood of independent components, in relative steps: a mixture M becomes (I + a D) M.

The mean over T of the negative logarithm of the density of the responses s to the rows M x, less log |det M|, has the
relative gradient E psi(s) s' - I, where psi is the derivative of the former. L-BFGS goes down it. Its preconditioner is
the second derivative within each pair of rows, ((E psi'_i s_j^2, 1), (1, E psi'_j s_i^2)), as in python-picard (Ablin,
Cardoso & Gramfort 2018). Their coarser approximation, E psi'_i E s_j^2, takes rows for independent; but edges of two
pictures lie at the same places more often than by chance. python-picard computes in float64 and on the CPU; this
descent stays on the device and in the precision of its rows. Its products are not rounded to bfloat16: what filters do
not see of a picture is larger than what they see, and rounding is relative to it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

import torch
from torch import Tensor

from attacks.source_separation.mixed import Likelihood, Mixed

FLAT = 1e-3
"""A likelihood is at its maximum when no entry of its relative gradient is larger."""
REFRESH = 10
"""Steps after which the preconditioner is computed anew."""
LEAST_GAIN = 2e-5
"""A descent has settled when `REFRESH` steps lower what is minimised by less than this for each row."""
MEMORY, HALVINGS = 7, 10
"""How many former steps say how the gradient changes, and how often a step is halved that does not go down."""
LEAST_BEND = 0.01
"""Smallest eigenvalue of the preconditioner's blocks."""
Former = tuple[Tensor, Tensor, Tensor]
"""A step (r, r), what it changed in the gradient, and the product of both, a scalar."""


def descended(likelihood: Likelihood, rows: Mixed, mixture: Tensor, steps: int) -> tuple[Tensor, int, bool]:
    """Return a mixture (r, r) of rows that is likelier, the steps taken, and whether the descent has settled.

    No step is taken that makes it less likely, or not finite.

    Args:
        likelihood: -log p of responses.
        rows: whose responses are white.
        mixture: (r, r), where to begin.
        steps: at most.
    """
    at = _Place(likelihood, rows.by(mixture), mixture)
    memory: deque[Former] = deque(maxlen=MEMORY)
    former: tuple[Tensor, Tensor] | None = None
    cost = math.inf
    for taken in range(steps):
        gradient = at.gradient()
        if float(gradient.abs().max()) < FLAT:
            return at.mixture, taken, True
        if taken % REFRESH == 0:
            if cost - at.cost < LEAST_GAIN * len(mixture):
                return at.mixture, taken, True
            cost, blocks = at.cost, at.blocks()
        if former is not None:
            last, before = former
            change = gradient - before
            product = _dot(last, change)
            if float(product) > 0:
                memory.append((last, change, product))
        for direction in _directions(gradient, blocks, memory):
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
        likelihood: -log p of responses.
        mixed: the rows that a mixture makes; they are overwritten.
        mixture: (r, r), as in `descended`.

    Attributes:
        mixture: (r, r), the present one.
        cost: what is minimised there.
    """

    def __init__(self, likelihood: Likelihood, mixed: Mixed, mixture: Tensor) -> None:
        self.mixture = mixture
        self._likelihood, self._mixed, self._rows = likelihood, mixed, mixed.rows
        self._further, self._score = torch.empty_like(mixed.rows), torch.empty_like(mixed.rows)
        self.cost = self._evaluated(mixture, self._rows)

    def gradient(self) -> Tensor:
        """Return the relative gradient (r, r) here, before `lower` has tried a step."""
        mean = (self._score @ self._rows.T).div_(self._mixed.count)
        mean.diagonal().sub_(1)
        return mean

    def blocks(self) -> Tensor:
        """Return the first diagonal entry of the preconditioner's block of each pair of rows: (r, r)."""
        return self._mixed.curvature(self._likelihood, self._rows)

    def lower(self, direction: Tensor) -> Tensor | None:
        """Take a step (r, r) along a direction that goes down, and return it; return None if none does."""
        for halvings in range(HALVINGS):
            step: Tensor = direction / 2**halvings
            torch.addmm(self._rows, step, self._rows, out=self._further)
            mixture = self.mixture + step @ self.mixture
            cost = self._evaluated(mixture, self._further)
            if cost < self.cost:
                self.mixture, self.cost = mixture, cost
                self._rows, self._further = self._further, self._rows
                return step
        return None

    def _evaluated(self, mixture: Tensor, rows: Tensor) -> float:
        """Return what is minimised at rows (r, d) that a mixture makes, and keep their score."""
        value = self._mixed.evaluate(self._likelihood, rows, self._score)
        return float(value.double().sum() - torch.linalg.slogdet(mixture.double()).logabsdet)


def _directions(gradient: Tensor, blocks: Tensor, memory: deque[Former]) -> Iterator[Tensor]:
    """Return what to try: the direction of L-BFGS (Nocedal & Wright 2006, algorithm 7.4), then that without memory."""
    if memory:
        rest, shares = gradient.clone(), list[Tensor]()
        for step, change, product in reversed(memory):
            shares.append(_dot(step, rest) / product)
            rest.addcmul_(change, shares[-1], value=-1)
        direction = _preconditioned(rest, blocks)
        for (step, change, product), share in zip(memory, reversed(shares), strict=True):
            direction.addcmul_(step, share - _dot(change, direction) / product)
        yield direction.neg_()
    yield _preconditioned(gradient, blocks).neg_()


def _dot(one: Tensor, other: Tensor) -> Tensor:
    """Return the sum of the products of entries, a scalar that the host need not wait for."""
    return torch.dot(one.flatten(), other.flatten())


def _preconditioned(gradient: Tensor, blocks: Tensor) -> Tensor:
    """Return the solution (r, r) of the blocks' equations, whose smallest eigenvalue is brought to `LEAST_BEND`.

    Args:
        gradient: (r, r).
        blocks: (r, r), the first diagonal entry of the block of each pair; the second is that of the pair turned round.
    """
    smallest = (blocks + blocks.T - ((blocks - blocks.T).square() + 4).sqrt()) / 2
    bent = blocks + (LEAST_BEND - smallest).clamp_min(0)
    solved: Tensor = (gradient * bent.T - gradient.T).div_(bent * bent.T - 1)
    solved.diagonal().copy_(gradient.diagonal() / (blocks.diagonal() + 1))
    return solved
