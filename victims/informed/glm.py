"""Generalised linear models with canonical links, fitted to optimality by Newton's method in float64.

The objective is sum_i [b(f_i) - y_i f_i] + (mu / 2) ||theta||^2 with f = X coef' + intercept, the regulariser including
the intercept if it is penalised; its gradient is sum_i x_i (mean(f_i) - y_i) + mu theta (Balle et al. 2022, Section 3,
with the signs of equations 3 and 4 corrected).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from scipy.special import expit, logsumexp, softmax
from torch import Tensor

from victims.errors import UserError
from victims.informed.spec import Family, GLMArchitecture

STEPS = 100
HALVINGS = 40
TOLERANCE = 1e-10
"""Largest relative gradient of a fit that counts as optimal; Newton's method goes on as long as it still falls."""


def inverse_link(family: Family, predictor: np.ndarray) -> np.ndarray:
    """Return the mean of y, (n, C), for linear predictors (n, C): the inverse of the link.

    Raises:
        UserError: there is no such family.
    """
    if family == "linear":
        return predictor
    if family == "logistic":
        return np.asarray(expit(predictor))
    if family == "poisson":
        return np.asarray(np.exp(predictor))
    if family == "multinomial":
        return np.asarray(softmax(predictor, axis=1))
    raise UserError(f"no link is known for the family {family!r}; there are linear, logistic, poisson and multinomial")


def targets_of(family: Family, labels: np.ndarray, outputs: int) -> np.ndarray:
    """Return labels (n,) as the y of the model, (n, outputs) float64: one-hot rows for a multinomial one."""
    if family == "multinomial":
        return np.eye(outputs)[labels.astype(np.int64)]
    return labels[:, None].astype(np.float64)


@dataclass(frozen=True)
class GLM:
    """A generalised linear model with its parameters.

    Attributes:
        architecture: family and intercept.
        penalty: mu.
        coef: (C, d) float64.
        intercept: (C,) float64, zeros if there is none.
    """

    architecture: GLMArchitecture
    penalty: float
    coef: np.ndarray
    intercept: np.ndarray

    def predictor(self, records: np.ndarray) -> np.ndarray:
        """Return f (n, C) for records (n, d)."""
        return np.asarray(records @ self.coef.T + self.intercept)

    def residuals(self, records: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return mean(f) - y (n, C) for records (n, d) and targets (n, C)."""
        return np.asarray(inverse_link(self.architecture.family, self.predictor(records)) - targets)

    def regulariser_gradient(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient of the regulariser with respect to `coef` (C, d) and `intercept` (C,)."""
        weight = self.penalty if self.architecture.intercept == "penalised" else 0.0
        return self.penalty * self.coef, weight * self.intercept

    def gradient(self, records: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient of the objective with respect to `coef` (C, d) and `intercept` (C,)."""
        residuals = self.residuals(records, targets)
        coef, intercept = self.regulariser_gradient()
        present = self.architecture.intercept != "none"
        return residuals.T @ records + coef, (residuals.sum(0) + intercept) * present

    def optimality(self, records: np.ndarray, targets: np.ndarray) -> float:
        """Return the gradient's norm relative to the sum of the norms of its parts: 0 at the optimum, 1 at most."""
        residuals = self.residuals(records, targets)
        norms = np.sqrt((records**2).sum(1) + (self.architecture.intercept != "none"))
        parts = norms @ np.linalg.norm(residuals, axis=1)
        parts += sum(np.linalg.norm(part) for part in self.regulariser_gradient())
        size = np.sqrt(sum((part**2).sum() for part in self.gradient(records, targets)))
        return float(size / parts) if parts > 0 else 0.0


def fit(
    architecture: GLMArchitecture,
    penalty: float,
    records: np.ndarray,
    targets: np.ndarray,
    start: GLM | None = None,
) -> GLM:
    """Fit a model to optimality.

    Args:
        architecture: family and intercept.
        penalty: mu.
        records: (n, d).
        targets: (n, C), see `targets_of`.
        start: a model near the optimum; None for zeros.

    Raises:
        UserError: there is no unique optimum, or it is not reached: a singular system, or separable classes without a
            regulariser.
    """
    outputs = architecture.outputs
    zero = GLM(architecture, penalty, np.zeros((outputs, records.shape[1])), np.zeros(outputs))
    model = zero if start is None else start
    best, value = model.optimality(records, targets), _objective(model, records, targets)
    for _ in range(STEPS):
        step = _newton_step(model, records, targets)
        moved, value = _search(model, step, records, targets, value)
        reached = moved.optimality(records, targets)
        if best <= TOLERANCE and reached >= best:
            break
        model, best = moved, reached
    if not best <= TOLERANCE:
        raise UserError(
            f"the {architecture.family} model did not converge (relative gradient {best:.1e}); with separable classes "
            "there is no optimum without a regulariser"
        )
    return model


def predictors(coef: Tensor, intercept: Tensor, records: Tensor) -> Tensor:
    """Return the linear predictors (T, m, C) of T models for records (m, d)."""
    return torch.einsum("tcd,md->tmc", coef, records.to(coef)) + intercept[:, None]


def _objective(model: GLM, records: np.ndarray, targets: np.ndarray) -> float:
    family, predictor = model.architecture.family, model.predictor(records)
    if family == "multinomial":
        partition = logsumexp(predictor, axis=1).sum()
    elif family == "logistic":
        partition = np.logaddexp(0, predictor).sum()
    else:
        partition = (predictor**2 / 2 if family == "linear" else np.exp(predictor)).sum()
    penalised = model.architecture.intercept == "penalised"
    squares = (model.coef**2).sum() + (model.intercept**2).sum() * penalised
    return float(partition - (targets * predictor).sum() + model.penalty / 2 * squares)


def hessian(model: GLM, records: np.ndarray) -> np.ndarray:
    """Return the objective's second derivative (C (1 + d), C (1 + d)), of each output's intercept and coefficients.

    Where it has no intercept, or a softmax is blind to a shift, 1 stands on the diagonal.
    """
    architecture, (outputs, width) = model.architecture, model.coef.shape
    ones = np.full((len(records), 1), float(architecture.intercept != "none"))
    design = np.hstack([ones, records])
    blocks = np.zeros((outputs, 1 + width, outputs, 1 + width))
    weights = _variance(architecture.family, inverse_link(architecture.family, model.predictor(records)))
    for a in range(outputs):
        for b in range(a + 1):
            blocks[a, :, b] = blocks[b, :, a] = (design * weights[:, a, b, None]).T @ design
    square = blocks.reshape(outputs * (1 + width), -1)
    decay = np.full((outputs, 1 + width), model.penalty)
    decay[:, 0] = {"none": 1.0, "penalised": model.penalty, "unpenalised": 0.0}[architecture.intercept]
    square[np.diag_indices_from(square)] += decay.ravel()
    if architecture.family == "multinomial":
        _pin_common_shift(blocks, decay)
    return square


def _newton_step(model: GLM, records: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the step (C, 1 + d) of intercept and coefficients.

    Raises:
        UserError: the Hessian is singular.
    """
    architecture, (outputs, width) = model.architecture, model.coef.shape
    coef, intercept = model.gradient(records, targets)
    gradient = np.hstack([intercept[:, None], coef]).ravel()
    try:
        factor = scipy.linalg.cho_factor(hessian(model, records))
    except (scipy.linalg.LinAlgError, ValueError):
        raise UserError(
            f"the {architecture.family} model's Hessian is singular: no unique optimum; use a stronger regulariser"
        ) from None
    step: np.ndarray = -scipy.linalg.cho_solve(factor, gradient).reshape(outputs, 1 + width)
    return step


def _pin_common_shift(blocks: np.ndarray, decay: np.ndarray) -> None:
    """Add curvature along shifts of all classes alike, to which a softmax is blind, where no regulariser has any.

    The gradient has no part along them, so neither has the step: the optimum stays where it is.
    """
    for column in np.flatnonzero(decay[0] == 0):
        blocks[:, column, :, column] += 1


def _variance(family: Family, means: np.ndarray) -> np.ndarray:
    """Return the derivative of the mean by the predictor, (n, C, C)."""
    if family == "multinomial":
        return np.asarray(means[:, :, None] * np.eye(means.shape[1]) - means[:, :, None] * means[:, None, :])
    diagonal = {"linear": np.ones_like(means), "logistic": means * (1 - means), "poisson": means}[family]
    return np.asarray(diagonal[:, :, None])


def _search(model: GLM, step: np.ndarray, records: np.ndarray, targets: np.ndarray, value: float) -> tuple[GLM, float]:
    """Take the step, halved until the objective does not rise beyond rounding; return the model and its objective."""
    for halving in range(HALVINGS):
        scaled = step / 2**halving
        moved = GLM(model.architecture, model.penalty, model.coef + scaled[:, 1:], model.intercept + scaled[:, 0])
        reached = _objective(moved, records, targets)
        if reached <= value + 1e-12 * abs(value):
            return moved, reached
    return model, value
