"""A logistic regression of scikit-learn on the pixels of photographs."""

from __future__ import annotations

from pathlib import Path

import joblib
from owners.files import hand_over, inputs, photographs
from sklearn.linear_model import LogisticRegression

from victims.ordinary.estimators import network_of

N = 36
NETWORK = """
import joblib

from victims.ordinary.estimators import network_of

ESTIMATOR = joblib.load(HERE / "model.joblib")


def network():
    return network_of(ESTIMATOR)
""".strip()


def make(folder: Path) -> Path:
    """Train it, write its files, and return the one that describes it."""
    images, labels = photographs()
    estimator = LogisticRegression(max_iter=1000)
    estimator.fit(inputs(images[:N]).flatten(1).numpy(), labels[:N].numpy())
    joblib.dump(estimator, folder / "model.joblib")
    return hand_over(folder, network_of(estimator), N, NETWORK)
