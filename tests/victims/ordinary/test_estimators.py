"""A scikit-learn estimator becomes the torch network that computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from victims.errors import UserError
from victims.ordinary.estimators import network_of, weights_of
from victims.released.module import built_architecture
from victims.spec import TailSpec

IMAGES, LABELS = load_digits(return_X_y=True)
ESTIMATORS = {
    "two classes": LogisticRegression(max_iter=50),
    "ten classes": LogisticRegression(max_iter=20),
    "no intercept": LogisticRegression(max_iter=20, fit_intercept=False),
    "network": MLPClassifier((12, 7), max_iter=3, random_state=0),
    "tanh": MLPClassifier((12,), activation="tanh", max_iter=3, random_state=0),
    "logistic": MLPClassifier((12,), activation="logistic", max_iter=3, random_state=0),
    "identity": MLPClassifier((12, 7), activation="identity", max_iter=3, random_state=0),
    "network of two classes": MLPClassifier((12,), max_iter=3, random_state=0),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_computes_the_same(name: str, tmp_path: Path) -> None:
    classes = 2 if "two" in name else 10
    chosen = classes > LABELS
    estimator = ESTIMATORS[name].fit(IMAGES[chosen] / 16, LABELS[chosen])
    inputs = torch.from_numpy(IMAGES[chosen][:20] / 16).float().reshape(-1, 1, 8, 8)
    with torch.no_grad():
        outputs = network_of(estimator)(inputs).double()
    expected = estimator.predict_proba(IMAGES[chosen][:20] / 16)
    found = torch.sigmoid(outputs) if classes == 2 else outputs.softmax(1)

    np.testing.assert_allclose(found, expected[:, 1:] if classes == 2 else expected, rtol=1e-4, atol=1e-6)
    path = weights_of(estimator, tmp_path / "weights.safetensors")
    before = path.stat().st_mtime_ns
    assert weights_of(estimator, path).stat().st_mtime_ns == before
    network = network_of(estimator)
    assert {*network.state_dict()} == {key for key, _ in network.named_parameters()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["tanh", "logistic", "identity"])
def test_another_activation_leaves_the_first_layer_open(name: str) -> None:
    estimator = ESTIMATORS[name].fit(IMAGES / 16, LABELS)
    assert isinstance(built_architecture("mine", lambda: network_of(estimator), (1, 8, 8)), TailSpec)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "told"),
    [
        (LogisticRegression(), "LogisticRegression is not fitted"),
        (Perceptron().fit(IMAGES, LABELS), "Perceptron is not covered"),
        (
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=5)).fit(IMAGES, LABELS),
            "give its last step, LogisticRegression, and of a StandardScaler before it mean=scaler.mean_",
        ),
        (LogisticRegression(max_iter=5).fit(IMAGES, LABELS + 1), "fit it on labels 0, 1, 2"),
        (SVC().fit(IMAGES[:90], LABELS[:90]), "SVC of 10 classes is not covered: .* fit OneVsRestClassifier"),
        (KNeighborsClassifier(2).fit(IMAGES[:90], LABELS[:90]), "keeps training records as they are"),
        (GaussianProcessClassifier(optimizer=None).fit(IMAGES[:90], LABELS[:90] % 2), "keeps training records"),
    ],
    ids=["not fitted", "another", "pipeline", "other labels", "kernel machine", "neighbours", "process"],
)
def test_what_is_not_covered_is_named(estimator: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        network_of(estimator)
