"""The equation F = K(Z, X) A + 1 b' of a kernel machine's answers, and its derivatives in the images X.

What it leaves is the reconstruction loss of Barzilai et al. 2025, ||K(Z, X) A - F||^2. The coefficients A and b are
those that fit best, in closed form (variable projection): only X and log gamma are searched for. Derivatives leave out
how A and b move along the residual (Kaufman's approximation), which vanishes at a solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from victims.kernel.machine import kernel_slopes, kernel_values, kernel_width_slopes, squared_distances
from victims.kernel.spec import Kernel

RIDGE = 1e-10
"""Added to the diagonal of the normal equations of the coefficients, relative to its mean."""


@dataclass(frozen=True)
class Answers:
    """What was asked and what was answered.

    Attributes:
        kernel: the kernel's family.
        queries: (q, d) Z.
        values: (q, C) F.
        constant: whether the answers have an intercept b.
    """

    kernel: Kernel
    queries: Tensor
    values: Tensor
    constant: bool

    @cached_property
    def size(self) -> float:
        """The squared norm of the values; 1 if all values are 0."""
        return float((self.values * self.values).sum()) or 1.0


@dataclass(frozen=True)
class Fit:
    """The equation at some images, with the best coefficients.

    Attributes:
        answers: what is to be explained.
        points: (m, d) X.
        log_gamma: () logarithm of the kernel's inverse width.
    """

    answers: Answers
    points: Tensor
    log_gamma: Tensor

    @cached_property
    def squared(self) -> Tensor:
        """(q, m) squared distances of queries and images."""
        return squared_distances(self.answers.queries, self.points)

    @cached_property
    def values(self) -> Tensor:
        """(q, m) K."""
        return kernel_values(self.answers.kernel, self.log_gamma.exp(), self.squared)

    @cached_property
    def slopes(self) -> Tensor:
        """(q, m) S, with dK_qj / dx_j = S_qj (x_j - z_q)."""
        return kernel_slopes(self.answers.kernel, self.log_gamma.exp(), self.squared, self.values)

    @cached_property
    def widening(self) -> Tensor:
        """(q, C) derivative of K A by log gamma."""
        slopes = kernel_width_slopes(self.answers.kernel, self.log_gamma.exp(), self.squared, self.values)
        return slopes @ self.coefficients

    @cached_property
    def _basis(self) -> Tensor:
        ones = self.values.new_ones(len(self.values), 1)
        return torch.cat([self.values, ones], 1) if self.answers.constant else self.values

    @cached_property
    def _factor(self) -> Tensor:
        normal = self._basis.T @ self._basis
        normal.diagonal().add_(RIDGE * normal.diagonal().mean())
        factor: Tensor = torch.linalg.cholesky(normal)
        return factor

    def _projected(self, values: Tensor) -> Tensor:
        """Return the coefficients (m or m + 1, C) of the best fit to values (q, C)."""
        return torch.cholesky_solve(self._basis.T @ values, self._factor)

    @cached_property
    def _solution(self) -> Tensor:
        return self._projected(self.answers.values)

    @property
    def coefficients(self) -> Tensor:
        """(m, C) A."""
        return self._solution[: len(self.points)]

    @cached_property
    def residual(self) -> Tensor:
        """(q, C) K A + 1 b' - F."""
        return self._basis @ self._solution - self.answers.values

    @cached_property
    def loss(self) -> float:
        """The squared norm of the residual, relative to the squared norm of the values."""
        return float((self.residual * self.residual).sum()) / self.answers.size

    def forward(self, moves: Tensor, widening: Tensor) -> Tensor:
        """Return the change (q, C) of the residual as images move by (m, d) and log gamma by ()."""
        along = (self.points * moves).sum(1)[None] - self.answers.queries @ moves.T
        change = (self.slopes * along) @ self.coefficients + widening * self.widening
        return change - self._basis @ self._projected(change)

    def backward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the products, (m, d) and (), of the transposed derivatives by X and by log gamma with values (q, C).

        The values must be orthogonal to the kernels, as residuals are.
        """
        weights = (values @ self.coefficients.T) * self.slopes
        return weights.sum(0)[:, None] * self.points - weights.T @ self.answers.queries, (values * self.widening).sum()

    @cached_property
    def curvature(self) -> tuple[Tensor, Tensor]:
        """The diagonal (m, d) and () of the squared derivative, before the projection."""
        queries, points, squares = self.answers.queries, self.points, self.slopes * self.slopes
        spread = squares.T @ (queries * queries) - 2 * points * (squares.T @ queries)
        spread = spread + points * points * squares.sum(0)[:, None]
        sizes = (self.coefficients * self.coefficients).sum(1)
        return sizes[:, None] * spread.clamp_min(0), (self.widening * self.widening).sum()
