"""How long the closed-form attack on a patient of scikit-learn's breast cancer takes, beside one fit of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import minmax_scale

from attacks.informed.glm import reconstruct_record

RECORDS, LABELS = load_breast_cancer(return_X_y=True)
RECORDS = minmax_scale(RECORDS)


def fitted() -> LogisticRegression:
    return LogisticRegression(tol=1e-12, max_iter=100_000).fit(RECORDS, LABELS)


@pytest.mark.benchmark(group="closed form")
def test_attack(benchmark: Any) -> None:
    estimator = fitted()
    found = benchmark(reconstruct_record, estimator, RECORDS[1:], LABELS[1:])
    assert np.linalg.norm(found.record - RECORDS[0]) < 0.01 * np.linalg.norm(RECORDS[0])


@pytest.mark.benchmark(group="closed form")
def test_one_fit_of_the_model(benchmark: Any) -> None:
    benchmark(fitted)
