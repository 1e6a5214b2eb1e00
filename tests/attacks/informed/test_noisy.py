"""Where parameters are released with noise, what is known of records is worth as much as the gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from attacks.informed.closed_form import missing_record
from attacks.informed.noisy import expected_record
from victims.informed.glm import GLM, fit, hessian, inverse_link, targets_of
from victims.informed.spec import Family, GLMArchitecture

PENALTY = 5.0
Errors = dict[float, tuple[float, float, float]]


@pytest.fixture(scope="module", params=["linear", "logistic"])
def errors(request: Any) -> Errors:
    """Mean squared errors by size of the noise: of the closed form, of the posterior mean, and of the mean record."""
    family: Family = request.param
    random = np.random.default_rng(0)
    architecture = GLMArchitecture(family=family, intercept="penalised")
    mixing = random.normal(size=(8, 8)) / 3
    records = random.normal(size=(100, 8)) @ mixing + 0.5
    f = records @ random.normal(size=8)
    labels = (
        f + random.normal(size=100)
        if family == "linear"
        else (random.random(100) < inverse_link("logistic", f)).astype(float)
    )
    targets = targets_of(family, labels, 1)
    model = fit(architecture, PENALTY, records, targets)
    found: Errors = {}
    for deviation in (1e-9, 1e-4, 1e-3, 1e-2, 100.0):
        off = []
        for place in range(60):
            known = np.arange(100) != place
            noisy = GLM(
                architecture,
                PENALTY,
                model.coef + deviation * random.normal(size=model.coef.shape),
                model.intercept + deviation * random.normal(size=1),
            )
            arguments = (noisy, records[known], targets[known])
            guesses = (
                missing_record(*arguments).record,
                expected_record(*arguments, deviation),
                records[known].mean(0),
            )
            off.append([((guess - records[place]) ** 2).mean() for guess in guesses])
        found[deviation] = tuple(np.mean(off, axis=0))  # type: ignore[assignment]
    return found


def test_it_is_never_much_worse_than_the_better_of_what_it_weighs(errors: Errors) -> None:
    for closed, weighed, guessed in errors.values():
        assert weighed < 1.1 * min(closed, guessed)


def test_between_the_extremes_it_is_better_than_both(errors: Errors) -> None:
    assert any(weighed < 0.8 * min(closed, guessed) for closed, weighed, guessed in errors.values())


def test_its_limits_are_the_closed_form_and_the_mean_record(errors: Errors) -> None:
    assert errors[1e-9][1] < 1e-9
    assert errors[100.0][1] == pytest.approx(errors[100.0][2], rel=0.05)


@pytest.mark.parametrize("family", ["linear", "logistic"])
def test_it_is_the_mean_of_normal_posteriors_weighed_by_how_likely_each_residual_makes_what_is_seen(
    family: Family,
) -> None:
    """The gradient is -r (1, x) and noise through the Hessian; r is a quantile of the known records' residuals."""
    random, deviation = np.random.default_rng(1), 0.02
    records = random.normal(size=(61, 3)) @ random.normal(size=(3, 3)) + 0.5
    targets = targets_of(family, (random.random(61) < 0.5).astype(float), 1)
    architecture = GLMArchitecture(family=family, intercept="penalised")
    optimum = fit(architecture, PENALTY, records, targets)
    noised = (part + deviation * random.normal(size=part.shape) for part in (optimum.coef, optimum.intercept))
    model, records, targets = GLM(architecture, PENALTY, *noised), records[1:], targets[1:]
    coef, intercept = model.gradient(records, targets)
    seen, residuals = np.concatenate([intercept, coef[0]]), model.residuals(records, targets)[:, 0]
    through = deviation * hessian(model, records)
    noise, centre, prior = through @ through.T, records.mean(0), np.zeros((4, 4))
    prior[1:, 1:] = np.cov(records.T)
    assert np.sqrt(noise[0, 0]) > residuals.std() / 10
    logs, posteriors = [], []
    for r in np.quantile(residuals, (np.arange(64) + 0.5) / 64):
        expected, spread = -r * np.concatenate([[1.0], centre]), noise + r**2 * prior
        logs.append(multivariate_normal(expected, spread).logpdf(seen))
        posteriors.append(centre - r * prior[1:] @ np.linalg.solve(spread, seen - expected))
    weights = np.exp(np.array(logs) - max(logs))
    assert weights.max() < 0.5 * weights.sum()  # several count
    estimate = expected_record(model, records, targets, deviation)
    assert estimate == pytest.approx(weights @ np.array(posteriors) / weights.sum(), rel=1e-4)
