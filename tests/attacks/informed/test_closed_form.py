"""The missing record comes out exactly, for every family, penalty and intercept, or the attack says why it cannot."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import (
    Lasso,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
)
from sklearn.preprocessing import minmax_scale

from attacks.informed.closed_form import UnidentifiableError, implausibility, missing_record
from attacks.informed.glm import glm_of, reconstruct_record
from victims.errors import UserError
from victims.informed.glm import GLM, fit, inverse_link, targets_of
from victims.informed.spec import Convention, Family, GLMArchitecture, Intercept, Newton

CLASSES = 3
WELL_CONDITIONED = 1e5
CANCER = load_breast_cancer(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)


def drawn(family: Family, seed: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Records (n, d), and y from a model of that family (n,)."""
    random = np.random.default_rng(seed)
    records = random.normal(size=(n, d))
    f = records @ random.normal(size=d) / np.sqrt(d)
    if family == "linear":
        return records, f + random.normal(size=n)
    if family == "poisson":
        return records, random.poisson(np.exp(f)).astype(float)
    if family == "logistic":
        return records, (random.random(n) < inverse_link("logistic", f)).astype(float)
    return records, (records[:, :CLASSES] + random.gumbel(size=(n, CLASSES))).argmax(1).astype(float)


def error(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


@settings(max_examples=150)
@given(
    family=st.sampled_from(get_args(Family)),
    intercept=st.sampled_from([kind for kind in get_args(Intercept) if kind != "none"]),
    convention=st.sampled_from(get_args(Convention)),
    strength=st.floats(0.01, 10),
    n=st.integers(15, 60),
    d=st.integers(3, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_record_and_its_y_come_out_exactly(
    family: Family, intercept: Intercept, convention: Convention, strength: float, n: int, d: int, seed: int
) -> None:
    records, labels = drawn(family, seed, n, d)
    outputs = CLASSES if family == "multinomial" else 1
    targets = targets_of(family, labels, outputs)
    architecture = GLMArchitecture(family=family, intercept=intercept, outputs=outputs)
    penalty = Newton(strength=strength, convention=convention).penalty(n)
    model = fit(architecture, penalty, records, targets)
    found = missing_record(model, records[1:], targets[1:])
    assume(found.condition < WELL_CONDITIONED)
    assert error(found.record, records[0]) <= 1e-8
    assert found.target == pytest.approx(labels[0], abs=1e-8)
    assert np.isnan(found.inconsistency) if family == "linear" else found.inconsistency < 1e-8


@pytest.mark.parametrize("family", ["linear", "logistic"])
@pytest.mark.parametrize("strength", [0.0, 0.5])
def test_without_an_intercept_the_record_is_one_of_two_roots(family: Family, strength: float) -> None:
    first = 0
    for seed in range(40):
        records, labels = drawn(family, seed, 40, 4)
        targets = targets_of(family, labels, 1)
        model = fit(GLMArchitecture(family=family, intercept="none"), strength, records, targets)
        found = missing_record(model, records[1:], targets[1:], labels[0])
        if found.condition > WELL_CONDITIONED:
            continue
        errors = [error(root, records[0]) for root in (found.record, *found.alternatives)]
        assert 1 <= len(errors) <= 2 and min(errors) < 1e-8
        first += errors[0] < 1e-8
        if family == "linear" and len(errors) == 2:  # Theorem 8: the fitted values of the two roots sum to y
            fitted = [float(model.predictor(root[None])[0, 0]) for root in (found.record, *found.alternatives)]
            assert sum(fitted) == pytest.approx(labels[0], abs=1e-7)
    assert first > 20


def test_an_unknown_class_without_an_intercept_is_tried_both_ways() -> None:
    records, labels = drawn("logistic", 3, 60, 4)
    targets = targets_of("logistic", labels, 1)
    model = fit(GLMArchitecture(intercept="none"), 1.0, records, targets)
    found = missing_record(model, records[1:], targets[1:])
    assert min(error(root, records[0]) for root in (found.record, *found.alternatives)) < 1e-8
    with pytest.raises(UnidentifiableError, match="follows from its y alone"):
        missing_record(
            GLM(GLMArchitecture(family="linear", intercept="none"), 0, model.coef, model.intercept), records, targets
        )
    with pytest.raises(UnidentifiableError, match="no closed form"):
        missing_record(
            GLM(GLMArchitecture(family="poisson", intercept="none"), 0, model.coef, model.intercept), records, targets
        )


def test_a_record_that_is_fitted_perfectly_leaves_no_trace() -> None:
    records = np.random.default_rng(0).normal(size=(30, 3))
    labels = records @ [1.0, 2.0, 3.0] + 4
    targets = targets_of("linear", labels, 1)
    exact = GLM(GLMArchitecture(family="linear"), 0.0, np.array([[1.0, 2.0, 3.0]]), np.array([4.0]))
    with pytest.raises(UnidentifiableError, match="fits it perfectly"):
        missing_record(exact, records[1:], targets[1:])


def test_the_condition_says_what_an_error_of_the_fit_becomes() -> None:
    records, labels = drawn("logistic", 1, 80, 5)
    targets = targets_of("logistic", labels, 1)
    model = fit(GLMArchitecture(), 1.0, records, targets)
    exact = missing_record(model, records[1:], targets[1:])
    random = np.random.default_rng(0)
    for size in (1e-9, 1e-7, 1e-5):
        moved = GLM(model.architecture, 1.0, model.coef + size * random.normal(size=model.coef.shape), model.intercept)
        off = moved.optimality(records, targets)
        found = missing_record(moved, records[1:], targets[1:])
        assert 0.01 < np.linalg.norm(found.record - records[0]) / (exact.condition * off) < 100
        assert found.inconsistency > exact.inconsistency


@pytest.mark.parametrize("strength", [0.0, 1.0, 1e4])
def test_the_condition_counts_the_regulariser_among_the_parts(strength: float) -> None:
    """What is left over is a difference of all parts, and is rounded as the largest of them."""
    records, labels = drawn("linear", 1, 80, 5)
    targets = targets_of("linear", labels, 1)
    model = fit(GLMArchitecture(family="linear"), strength, records, targets)
    residuals = records @ model.coef[0] + model.intercept[0] - labels
    parts = float(
        (np.linalg.norm(records, axis=1) * np.abs(residuals))[1:].sum() + strength * np.linalg.norm(model.coef)
    )
    found = missing_record(model, records[1:], targets[1:])
    assert found.condition == pytest.approx(parts / abs(residuals[0]), rel=1e-6)


def test_a_y_that_no_class_can_be_says_by_how_much() -> None:
    """A model of zeros says 1/2 of each record; 9 records of class 0 leave 4.5 for a last one, whose y would be 5."""
    random = np.random.default_rng(0)
    nothing = GLM(GLMArchitecture(), 0.0, np.zeros((1, 3)), np.zeros(1))
    found = missing_record(nothing, random.normal(size=(9, 3)), np.zeros((9, 1)))
    assert (found.target, found.residual, found.inconsistency) == pytest.approx((5, -4.5, 4))
    counts = GLM(GLMArchitecture(family="poisson"), 0.0, np.zeros((1, 3)), np.zeros(1))
    found = missing_record(counts, random.normal(size=(2, 3)), np.array([[4.0], [2.4]]))
    assert (found.target, found.inconsistency) == pytest.approx((-3.4, 3.4))


def test_a_root_is_implausible_by_its_length_and_its_direction() -> None:
    """Standard scores of the logarithm of the norm, and of the cosine with the mean record."""
    records = np.array([[1.0, 0.5], [2.0, 2.5], [4.0, 1.0], [3.0, 3.0]])
    centre = records.mean(0)

    def statistics(rows: np.ndarray) -> np.ndarray:
        norms = np.linalg.norm(rows, axis=1)
        return np.stack([np.log(norms), rows @ centre / norms / np.linalg.norm(centre)])

    others = statistics(records)
    for record in ([1.0, 1.0], [-30.0, 2.0]):
        own = statistics(np.array([record]))[:, 0]
        expected = (((own - others.mean(1)) / others.std(1)) ** 2).sum()
        assert implausibility(np.array(record), records) == pytest.approx(expected)


ESTIMATORS = [
    LogisticRegression(solver="newton-cholesky", tol=1e-12),
    LogisticRegression(solver="newton-cholesky", tol=1e-12, C=0.01),
    LogisticRegression(solver="newton-cg", tol=1e-13, C=10, max_iter=1000),
    LogisticRegression(solver="newton-cholesky", tol=1e-13, fit_intercept=False),
    Ridge(alpha=0.3),
    Ridge(alpha=0.3, fit_intercept=False),
    LinearRegression(),
    PoissonRegressor(solver="newton-cholesky", tol=1e-14, alpha=0.2, max_iter=1000),
]


def optimality(estimator: Any, records: np.ndarray, labels: np.ndarray) -> float:
    """How far an estimator is from the optimum of its own objective, for labels that are class indices or y."""
    return glm_of(estimator, len(records)).optimality(records, labels[:, None].astype(float))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_scikit_learn_estimators_give_their_records_away(estimator: Any) -> None:
    classes = isinstance(estimator, LogisticRegression)
    records, labels = CANCER if classes else DIABETES
    records = minmax_scale(records)
    if isinstance(estimator, PoissonRegressor):
        labels = labels.round()
    estimator.fit(records, labels)
    assert optimality(estimator, records, labels) < 1e-8
    right = 0
    for missing in range(0, 50, 5):
        known = np.arange(len(records)) != missing
        found = reconstruct_record(estimator, records[known], labels[known], labels[missing])
        roots = (found.record, *found.alternatives)
        right += min(error(root, records[missing]) for root in roots) < 1e-12 * found.condition + 1e-6
    assert right == 10


def test_a_strength_that_cross_validation_chose_is_read_if_it_is_one() -> None:
    records, labels = minmax_scale(CANCER[0]), CANCER[1]
    estimator = LogisticRegressionCV(Cs=[0.1, 1.0], cv=3, solver="newton-cholesky", tol=1e-12).fit(records, labels)
    found = reconstruct_record(estimator, records[1:], labels[1:])
    assert error(found.record, records[0]) < 1e-12 * found.condition + 1e-6
    estimator.C_ = np.array([0.1, 1.0])
    with pytest.raises(UserError, match="a C_ for each class"):
        reconstruct_record(estimator, records[1:], labels[1:])
    with pytest.raises(UserError, match="refit=True"):
        reconstruct_record(estimator.set_params(refit=False), records[1:], labels[1:])


def test_liblinear_penalises_its_intercept() -> None:
    records, labels = minmax_scale(CANCER[0]), CANCER[1]
    estimator = LogisticRegression(solver="liblinear", tol=1e-12, max_iter=100_000).fit(records, labels)
    assert error(reconstruct_record(estimator, records[1:], labels[1:]).record, records[0]) < 1e-2


def test_several_classes_with_names() -> None:
    records, labels = drawn("multinomial", 0, 120, 6)
    names = np.array(["ape", "bee", "cat"])[labels.astype(int)]
    estimator = LogisticRegression(solver="newton-cholesky", tol=1e-13).fit(records, names)
    found = reconstruct_record(estimator, records[1:], names[1:])
    assert error(found.record, records[0]) < 1e-8
    assert estimator.classes_[int(found.target)] == names[0]


def test_a_patient_comes_out_of_a_logistic_regression_and_not_out_of_an_unconverged_one() -> None:
    """A tolerance of 1e-12 gives two digits, Newton's method more than eight, the default none at all.

    The missing part of the gradient, -r (x, 1), is off by the model's own gradient, which is optimality times the
    parts; relative to itself by optimality times condition. x is a ratio of it, so its error is at most twice that.
    Where L-BFGS's line search ends, at 2e-7 here, is chance: the bound is on what it reached.
    """
    records, labels = minmax_scale(CANCER[0]), CANCER[1]
    tight = LogisticRegression(tol=1e-12, max_iter=100_000).fit(records, labels)
    found = reconstruct_record(tight, records[1:], labels[1:])
    assert error(found.record, records[0]) < 2 * found.condition * optimality(tight, records, labels) < 1
    default = LogisticRegression().fit(records, labels)
    assert error(reconstruct_record(default, records[1:], labels[1:]).record, records[0]) > 1
    assert optimality(default, records, labels) > 1e-5
    assert optimality(tight, records, labels) < 1e-5
    answers = labels[:, None].astype(float)
    model = glm_of(tight, len(records))
    polished = fit(model.architecture, model.penalty, records, answers, model)
    exact = missing_record(polished, records[1:], answers[1:])
    assert error(exact.record, records[0]) < 1e-8


def test_what_cannot_be_attacked_is_one_line() -> None:
    records, labels = minmax_scale(CANCER[0]), CANCER[1]
    wrong: list[tuple[Any, str]] = [
        (LogisticRegression(), "is no fitted estimator"),
        (Lasso().fit(records, labels), "no closed form is known for Lasso"),
        (LogisticRegression(class_weight="balanced").fit(records, labels), "class_weight"),
        (LinearRegression(positive=True).fit(records, labels), "no closed form is known"),
        (LogisticRegression().fit(records[:, :3], labels), "the estimator has 3 features"),
        (Ridge().fit(records, np.stack([labels, labels], 1)), "is 2 models in one"),
        (LinearRegression().fit(records, np.stack([labels, labels], 1)), "is 2 models in one"),
        (LogisticRegressionCV(Cs=[0.1], cv=2, l1_ratios=(0.5,), solver="saga", tol=0.1).fit(records, labels), "l1"),
        (LogisticRegression().fit(records, labels + 5), "other than the estimator's classes"),
    ]
    for estimator, line in wrong:
        with pytest.raises(UserError, match=line):
            reconstruct_record(estimator, records[1:], labels[1:])


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(get_args(Convention), 2)))
def test_conventions_are_told_apart(first: Convention, second: Convention) -> None:
    """The wrong convention is the commonest mistake: it costs the record, not a digit of it."""
    records, labels = drawn("logistic", 5, 50, 4)
    targets = targets_of("logistic", labels, 1)
    penalties = [Newton(strength=0.7, convention=kind).penalty(50) for kind in (first, second)]
    model = fit(GLMArchitecture(), penalties[0], records, targets)
    mistaken = GLM(model.architecture, penalties[1], model.coef, model.intercept)
    assert error(missing_record(mistaken, records[1:], targets[1:]).record, records[0]) > 0.05
