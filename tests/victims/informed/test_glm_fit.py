"""Generalised linear models are fitted to the optimum of the objective that their spec names, or say why not."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

from victims.errors import UserError
from victims.informed.glm import fit, inverse_link, targets_of
from victims.informed.spec import Convention, Family, GLMArchitecture, Intercept, Newton

N, D, CLASSES = 40, 4, 3


def problem(family: str, seed: int = 0) -> tuple[GLMArchitecture, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    records, labels = random.normal(size=(N, D)), random.normal(size=N)
    if family != "linear":
        labels = random.integers(0, {"logistic": 2, "poisson": 5, "multinomial": CLASSES}[family], N)
    outputs = CLASSES if family == "multinomial" else 1
    return GLMArchitecture(family=family, outputs=outputs), records, targets_of(family, labels, outputs)  # type: ignore[arg-type]


def written_out(architecture: GLMArchitecture, training: Newton, records: np.ndarray, targets: np.ndarray) -> Any:
    """The objective as `Newton` describes it, of all parameters in one vector, written from the likelihoods."""

    def objective(theta: np.ndarray) -> float:
        coef = theta.reshape(architecture.outputs, 1 + D)[:, 1:]
        intercept = theta.reshape(architecture.outputs, 1 + D)[:, 0] * (architecture.intercept != "none")
        f = records @ coef.T + intercept
        if architecture.family == "linear":
            losses = 0.5 * (f - targets)[:, 0] ** 2
        elif architecture.family == "logistic":
            losses = np.log1p(np.exp(-(2 * targets - 1) * f))[:, 0]
        elif architecture.family == "poisson":
            losses = (np.exp(f) - targets * f)[:, 0]
        else:
            losses = logsumexp(f, axis=1) - (targets * f).sum(1)
        square = (coef**2).sum() + (intercept**2).sum() * (architecture.intercept == "penalised")
        strength = training.strength
        return float(
            {
                "lambda": losses.sum() + strength * square,
                "half-lambda": losses.sum() + strength / 2 * square,
                "inverse-c": strength * losses.sum() + square / 2,
                "mean-loss": losses.mean() + strength / 2 * square,
            }[training.convention]
        )

    return objective


@pytest.mark.parametrize("convention", get_args(Convention))
@pytest.mark.parametrize("intercept", get_args(Intercept))
@pytest.mark.parametrize("family", get_args(Family))
def test_the_fit_is_where_the_objective_that_is_written_out_has_no_slope(
    family: Family, intercept: Intercept, convention: Convention
) -> None:
    architecture, records, targets = problem(family)
    architecture = architecture.model_copy(update={"intercept": intercept})
    training = Newton(strength=0.7, convention=convention)
    model = fit(architecture, training.penalty(N), records, targets)
    theta = np.hstack([model.intercept[:, None], model.coef]).ravel()
    objective = written_out(architecture, training, records, targets)
    slope = approx_fprime(theta, objective, 1e-6)
    away = approx_fprime(theta + 0.1, objective, 1e-6)
    assert np.abs(slope).max() < 2e-4 * max(1, np.abs(away).max())
    assert model.optimality(records, targets) < 1e-14
    assert intercept != "none" or not model.intercept.any()


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson"])
def test_without_a_regulariser_the_fit_is_the_maximum_of_the_likelihood(family: Family) -> None:
    architecture, records, targets = problem(family)
    model = fit(architecture, 0.0, records, targets)
    assert model.optimality(records, targets) < 1e-14
    residuals = inverse_link(family, model.predictor(records)) - targets
    assert residuals.sum() == pytest.approx(0, abs=1e-9)


def test_separable_classes_without_a_regulariser_have_no_optimum() -> None:
    records = np.linspace(-1, 1, 20)[:, None]
    with pytest.raises(UserError, match=r"separable classes|singular"):
        fit(GLMArchitecture(), 0.0, records, (records > 0).astype(float))


def test_a_singular_system_is_named() -> None:
    records = np.ones((5, 3))
    with pytest.raises(UserError, match="Hessian is singular: no unique optimum; use a stronger regulariser"):
        fit(GLMArchitecture(family="linear"), 0.0, records, np.arange(5.0)[:, None])


def test_an_unknown_link_is_named() -> None:
    with pytest.raises(UserError, match="no link is known for the family 'gamma'; there are linear, logistic, poisson"):
        inverse_link("gamma", np.zeros((1, 1)))  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        GLMArchitecture(family="gamma")  # type: ignore[arg-type]


def test_a_family_has_its_number_of_outputs() -> None:
    for wrong in ({"family": "logistic", "outputs": 3}, {"family": "multinomial", "outputs": 1}):
        with pytest.raises(ValidationError, match="does not have"):
            GLMArchitecture.model_validate(wrong)
    with pytest.raises(ValidationError, match="C must be positive"):
        Newton(strength=0, convention="inverse-c")
