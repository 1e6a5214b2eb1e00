"""The closed-form attack on fitted scikit-learn models.

found = reconstruct_record(estimator, X_known, y_known)
found.record, found.target, found.condition, found.inconsistency
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.utils.validation import check_is_fitted

from attacks.informed.closed_form import MissingRecord, missing_record
from victims.errors import UserError
from victims.informed.glm import GLM, targets_of
from victims.informed.spec import Family, GLMArchitecture, Intercept

SUPPORTED = "LinearRegression, Ridge, LogisticRegression and PoissonRegressor"


def reconstruct_record(
    estimator: Any, known: np.ndarray, targets: np.ndarray, label: float | None = None
) -> MissingRecord:
    """Return the one record that an estimator was fitted to beside the known ones.

    The relative error of the record is the estimator's distance from the optimum (`GLM.optimality`) times the condition
    that is returned: a small `tol` of the fit makes it small.

    Args:
        estimator: a fitted scikit-learn model with a ridge penalty or none.
        known: (n, d), the other records.
        targets: (n,) their y.
        label: y of the missing record, needed for a linear model without intercept.

    Returns:
        The record; for a classifier `target` is an index into `estimator.classes_`.

    Raises:
        UserError: the estimator is of another kind, not fitted, or was fitted to another number of features.
        UnidentifiableError: its parameters do not determine the record.
    """
    records = np.asarray(known, dtype=np.float64)
    model = glm_of(estimator, len(records) + 1)
    index = None if label is None else float(_indices(estimator, np.array([label]))[0])
    return missing_record(model, records, _targets(estimator, model, records, targets), index)


def glm_of(estimator: Any, count: int) -> GLM:
    """Return a fitted estimator as a model whose objective is a sum of losses and (mu / 2) ||theta||^2.

    Args:
        estimator: as for `reconstruct_record`.
        count: the number of records that it was fitted to.

    Raises:
        UserError: the estimator is of another kind, not fitted, or was fitted to several targets at once.
    """
    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        raise UserError(f"{estimator!r} is no fitted estimator; call its fit first") from None
    family, penalty = _objective(estimator, count)
    intercept: Intercept = "unpenalised" if estimator.fit_intercept else "none"
    if estimator.fit_intercept and getattr(estimator, "solver", "") == "liblinear":
        if estimator.intercept_scaling != 1:
            raise UserError("liblinear's intercept_scaling is not 1; no closed form is known for it here")
        intercept = "penalised"
    coef = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
    if len(coef) > 1 and family != "multinomial":
        raise UserError(f"{estimator!r} is {len(coef)} models in one; fit one for each target")
    offset = np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64), len(coef)).copy()
    return GLM(GLMArchitecture(family=family, intercept=intercept, outputs=len(coef)), penalty, coef, offset)


def _objective(estimator: Any, count: int) -> tuple[Family, float]:
    """Return an estimator's family and its mu.

    Raises:
        UserError: the estimator is of another kind.
    """
    if isinstance(estimator, LinearRegression) and not estimator.positive:
        return "linear", 0.0
    if isinstance(estimator, Ridge) and not estimator.positive and np.ndim(estimator.alpha) == 0:
        return "linear", float(estimator.alpha)  # its loss is ||y - f||^2 + alpha ||w||^2, twice ours
    if isinstance(estimator, PoissonRegressor):
        return "poisson", count * float(estimator.alpha)  # half the mean deviance + (alpha / 2) ||w||^2
    if isinstance(estimator, LogisticRegression):
        _require_plain(estimator)
        family: Family = "logistic" if len(estimator.classes_) == 2 else "multinomial"
        strength = _inverse_strength(estimator)
        return family, 0.0 if estimator.penalty is None or np.isinf(strength) else 1 / strength
    raise UserError(f"no closed form is known for {estimator!r}; there is one for {SUPPORTED}")


def _inverse_strength(estimator: LogisticRegression) -> float:
    """Return C, or the one that cross-validation has chosen.

    Raises:
        UserError: it has chosen several, one a class, or its weights are means over folds.
    """
    if hasattr(estimator, "C"):
        return float(estimator.C)
    if not estimator.refit:
        raise UserError(f"{estimator!r} returns the mean of its folds' weights; fit it with refit=True")
    chosen = np.unique(estimator.C_)
    if len(chosen) > 1:
        raise UserError(f"{estimator!r} has a C_ for each class; fit a LogisticRegression with one C")
    return float(chosen[0])


def _require_plain(estimator: LogisticRegression) -> None:
    """Raise UserError unless the objective is the sum of all records' losses and a ridge penalty."""
    if estimator.class_weight is not None:
        raise UserError("class_weight changes every record's weight; no closed form is known for it here")
    ratio: Any = getattr(estimator, "l1_ratio_", getattr(estimator, "l1_ratio", None))
    if estimator.penalty in ("l1", "elasticnet") or any(np.ravel(ratio)):
        raise UserError("an l1 penalty has no gradient at zero; no closed form is known for it here")
    if estimator.solver == "liblinear" and len(estimator.classes_) > 2:
        raise UserError("liblinear fits one model a class; give each to this attack as a binary one")


def _indices(estimator: Any, targets: np.ndarray) -> np.ndarray:
    """Return y (n,) in the model's form: class indices, or the values of a regression.

    Raises:
        UserError: a class is none of the estimator's.
    """
    answers = np.asarray(targets)
    if not hasattr(estimator, "classes_"):
        return answers.astype(np.float64)
    places = np.searchsorted(estimator.classes_, answers).clip(max=len(estimator.classes_) - 1)
    if (estimator.classes_[places] != answers).any():
        raise UserError(f"y has values other than the estimator's classes {estimator.classes_.tolist()}")
    return np.asarray(places)


def _targets(estimator: Any, model: GLM, records: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return y (n, C) in the form that the model takes.

    Raises:
        UserError: the numbers of records, features and y do not fit.
    """
    answers = np.asarray(targets)
    if records.ndim != 2 or records.shape[1] != model.coef.shape[1] or answers.shape != records.shape[:1]:
        raise UserError(
            f"records are {records.shape}, y {answers.shape}; the estimator has {model.coef.shape[1]} features"
        )
    return targets_of(model.architecture.family, _indices(estimator, answers), len(model.coef))
