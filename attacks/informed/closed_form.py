"""The missing record of a generalised linear model, read off the parameters and all other records.

At the optimum the gradients of all records and of the regulariser sum to zero, so the sum of the known ones is minus
the gradient of the missing record, x r with r = mean(f) - y. Hence x = G / G_0 and y = mean(x theta) + G_0, where G and
G_0 are the known part of the gradient by coefficients and intercept (Balle et al. 2022, Theorem 1, corrected). Without
an intercept only G = -r x is known. It has the direction of the record, whose length follows from an equation in one
unknown with two roots (Theorem 8).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import lambertw

from victims.errors import UserError
from victims.informed.glm import GLM, inverse_link

LARGEST_CONDITION = 1e14
"""At a larger condition rounding leaves no digit of the record."""


class UnidentifiableError(UserError):
    """The parameters do not determine the missing record."""


@dataclass(frozen=True)
class MissingRecord:
    """A reconstructed record.

    Attributes:
        record: (d,) float64.
        target: y of the record; a class index for a multinomial model.
        residual: mean(f) - y of the record, for a multinomial model its norm. If it is zero, the model fits the record
            perfectly and does not depend on it.
        condition: factor from the relative error of the model's gradient to the relative error of the record. The
            gradient's error comes from the distance from the optimum and from rounding.
        inconsistency: distance of y from the nearest possible value, a class or a count: 0 if the model is optimal. NaN
            for a linear model, whose y may be any number, without an intercept, and if y was given.
        alternatives: the other roots of the equation, the likeliest first.
    """

    record: np.ndarray
    target: float
    residual: float
    condition: float
    inconsistency: float
    alternatives: tuple[np.ndarray, ...] = ()


def missing_record(model: GLM, records: np.ndarray, targets: np.ndarray, label: float | None = None) -> MissingRecord:
    """Return the one record that a model was fitted to beside the known ones.

    Args:
        model: fitted to optimality.
        records: (n, d), the known records.
        targets: (n, C), their y; see `victims.informed.glm.targets_of`.
        label: y of the missing record, if the adversary knows it; it is used for models without an intercept only.

    Raises:
        UnidentifiableError: the model fits the record perfectly, or without an intercept y is needed and unknown.
    """
    if model.architecture.intercept == "none":
        return _without_intercept(model, records, targets, label)
    gradient, shift = model.gradient(records, targets)
    length = float(np.linalg.norm(shift))
    condition = _condition(model, records, targets, length)
    record = shift @ gradient / length**2
    return _described(model, record, -shift, condition)


def _described(model: GLM, record: np.ndarray, residual: np.ndarray, condition: float) -> MissingRecord:
    """Return the record with its y = mean(f) - residual (C,)."""
    family = model.architecture.family
    answer = inverse_link(family, model.predictor(record[None]))[0] - residual
    if family == "multinomial":
        label = int(answer.argmax())
        off = float(np.abs(answer - np.eye(len(answer))[label]).max())
        return MissingRecord(record, label, float(np.linalg.norm(residual)), condition, off)
    y = float(answer[0])
    admissible = {"logistic": np.clip(np.round(y), 0, 1), "poisson": max(np.round(y), 0.0), "linear": np.nan}[family]
    return MissingRecord(record, y, float(residual[0]), condition, float(abs(y - admissible)))


def _condition(model: GLM, records: np.ndarray, targets: np.ndarray, residual: float) -> float:
    """Return the summed norms of the known parts of the gradient by coefficients, over the missing record's residual.

    Raises:
        UnidentifiableError: the missing record's residual is below rounding.
    """
    residuals = model.residuals(records, targets)
    parts = float(np.linalg.norm(records, axis=1) @ np.linalg.norm(residuals, axis=1))
    parts += float(np.linalg.norm(model.regulariser_gradient()[0]))
    if residual * LARGEST_CONDITION <= parts or residual == 0:
        raise UnidentifiableError(
            f"the missing record has the residual {residual:.1e}: the model fits it perfectly, and its parameters are "
            "those without it"
        )
    return parts / residual


def _without_intercept(model: GLM, records: np.ndarray, targets: np.ndarray, label: float | None) -> MissingRecord:
    """Return the record x = a G, given G = -r x alone: a (y - mean(a s)) = 1 with s = G theta.

    Linear: s a^2 - y a + 1 = 0 (Theorem 8). Logistic (beyond the paper): with y = 1, a = 1 - W(-s e^s) / s on both real
    branches of Lambert's W; with y = 0 the same with the opposite sign.
    """
    family = model.architecture.family
    if family not in ("linear", "logistic"):
        raise UnidentifiableError(
            f"a {family} model without intercept has no closed form; for linear and logistic ones"
        )
    if family == "linear" and label is None:
        raise UnidentifiableError("without an intercept, the record of a linear model follows from its y alone")
    gradient = model.gradient(records, targets)[0][0]
    s = float(gradient @ model.coef[0])
    factors = _linear_factors(float(label or 0), s) if family == "linear" else _logistic_factors(label, s)
    roots = sorted((factor * gradient for factor in factors), key=lambda root: implausibility(root, records))
    best = roots[0]
    factor = float(best @ gradient / (gradient @ gradient))
    found = _described(model, best, np.array([-1 / factor]), _condition(model, records, targets, abs(1 / factor)))
    return MissingRecord(found.record, found.target, found.residual, found.condition, np.nan, tuple(roots[1:]))


def implausibility(record: np.ndarray, records: np.ndarray) -> float:
    """Return how much a record (d,) differs from the others (n, d) in length and direction, in which roots differ.

    It is the sum of two squared standard scores: of the logarithm of the norm, and of the cosine with the mean record.
    """
    centre = records.mean(0)
    rows = np.vstack([record, records])
    norms = np.linalg.norm(rows, axis=1) + np.finfo(float).tiny
    statistics = np.stack([np.log(norms), rows @ centre / (norms * (np.linalg.norm(centre) + np.finfo(float).tiny))])
    own, others = statistics[:, 0], statistics[:, 1:]
    return float((((own - others.mean(1)) / (others.std(1) + np.finfo(float).eps)) ** 2).sum())


def _linear_factors(y: float, s: float) -> list[float]:
    """Return the roots of s a^2 - y a + 1 = 0; at the optimum the discriminant (y - 2 f)^2 is not negative."""
    root = np.sqrt(max(y * y - 4 * s, 0.0))
    larger = (y + np.copysign(root, y)) / 2
    if larger == 0:
        raise UnidentifiableError("y and the fitted value are both zero: the model fits the missing record perfectly")
    factors = [1 / larger]  # the product of the roots is 1 / s: the other one without cancellation
    return [*factors, larger / s] if s != 0 else factors


def _logistic_factors(label: float | None, s: float) -> list[float]:
    """Return the factors a for y = `label`, or for both classes if it is None."""
    argument = -s * np.exp(s)
    branches = (0, -1) if -np.exp(-1) <= argument < 0 else (0,)
    sizes = [2.0] if s == 0 else [1 - float(lambertw(argument, branch).real) / s for branch in branches]
    signs = {None: (1, -1), 1.0: (1,), 0.0: (-1,)}[label]
    return [sign * size for sign in signs for size in sizes]
