"""Kernel machines: what they answer is what scikit-learn's estimator answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KernelDensity
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from victims.errors import UserError
from victims.kernel.estimators import machine_of
from victims.kernel.fitting import fitted
from victims.kernel.machine import KernelMachine
from victims.kernel.spec import KernelFit, KernelSpec, Model
from victims.obtain import obtain
from victims.ordinary.estimators import network_of, weights_of
from victims.released import released
from victims.spec import MLPSpec, NormalizedDescent, VictimSpec
from victims.zoo.barzilai2025 import machine

IMAGES, LABELS = (part[:60] for part in load_digits(return_X_y=True))
IMAGES, NEW = IMAGES[:40] / 16, IMAGES[40:] / 16
TWO, TEN = LABELS[:40] % 2, LABELS[:40]
ONE_HOT = np.eye(10)[TEN]
CPU = torch.device("cpu")
ESTIMATORS: dict[str, tuple[Any, Any, str]] = {
    "ridge": (KernelRidge(kernel="rbf", gamma=0.2), ONE_HOT, "predict"),
    "ridge, one output": (KernelRidge(kernel="rbf"), 2.0 * TWO - 1, "predict"),
    "svc": (SVC(gamma=0.2), TWO, "decision_function"),
    "svc, gamma scale": (SVC(), TWO, "decision_function"),
    "svc, one against rest": (OneVsRestClassifier(SVC(gamma=0.2)), TEN, "decision_function"),
    "logistic": (
        make_pipeline(Nystroem(gamma=0.2, n_components=40, random_state=0), LogisticRegression()),
        TEN,
        "decision_function",
    ),
    "density": (KernelDensity(bandwidth=0.7), None, "score_samples"),
    "density, exponential": (KernelDensity(kernel="exponential", bandwidth=0.7), None, "score_samples"),
    "process": (GaussianProcessRegressor(ConstantKernel(2) * RBF(1.5), alpha=0.1, optimizer=None), ONE_HOT, "predict"),
    "process, laplace": (
        GaussianProcessRegressor(Matern(1.5, nu=0.5), alpha=0.1, optimizer=None, normalize_y=True),
        2.0 * TWO - 1,
        "predict",
    ),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_answers_as_the_estimator_does(name: str) -> None:
    estimator, targets, asks = ESTIMATORS[name]
    estimator.fit(IMAGES, targets)
    with torch.no_grad():
        found = network_of(estimator)(torch.from_numpy(NEW).reshape(-1, 1, 8, 8))

    assert found.dtype == torch.float64
    # points and coefficients are kept in float32: sums of 40 terms of size at most 10
    np.testing.assert_allclose(found, getattr(estimator, asks)(NEW), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("estimator", "told"),
    [
        (SVC(), "SVC is not fitted"),
        (SVC(kernel="linear").fit(IMAGES, TWO), "the kernel 'linear' is not covered"),
        (SVC().fit(IMAGES, TEN), "votes of pairs"),
        (KernelRidge(kernel="laplacian").fit(IMAGES, TWO), "the kernel 'laplacian' is not covered"),
        (KernelDensity(kernel="tophat").fit(IMAGES), "tophat"),
        (GaussianProcessRegressor(DotProduct()), "not fitted"),
        (GaussianProcessRegressor(DotProduct(), optimizer=None).fit(IMAGES, TWO), "DotProduct"),
        (LogisticRegression().fit(IMAGES, TWO), "no kernel machine"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(estimator: Any, told: str) -> None:
    with pytest.raises(UserError, match=told) as raised:
        machine_of(estimator)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("model", ["ridge", "svc", "logistic", "density"])
@pytest.mark.parametrize("outputs", [1, 10])
def test_a_fit_of_the_suite_is_scikit_learns(model: Model, outputs: int) -> None:
    labels = TEN if outputs == 10 else TWO
    fit, images = KernelFit(gamma=0.2, penalty=0.1), IMAGES.reshape(-1, 1, 8, 8)
    with torch.no_grad():
        found = fitted(KernelSpec(model=model, kernel="gaussian", outputs=outputs), fit, images, labels)(
            torch.from_numpy(NEW).reshape(-1, 1, 8, 8)
        ).numpy()
    if model == "ridge":
        expected = KernelRidge(kernel="rbf", gamma=0.2, alpha=0.1).fit(
            IMAGES, ONE_HOT if outputs == 10 else 2 * TWO - 1.0
        )
        wanted = expected.predict(NEW)
    elif model == "svc":
        svc = SVC(gamma=0.2, C=10)
        wanted = (OneVsRestClassifier(svc) if outputs == 10 else svc).fit(IMAGES, labels).decision_function(NEW)
    elif model == "logistic":
        features = Nystroem(gamma=0.2, n_components=40, random_state=0)
        estimator = make_pipeline(features, LogisticRegression(C=10, max_iter=1000, tol=1e-8))
        wanted = estimator.fit(IMAGES, labels).decision_function(NEW)
    else:
        width = np.sqrt(1 / (2 * 0.2))
        groups = [IMAGES[labels == label] for label in range(10)] if outputs == 10 else [IMAGES]
        wanted = np.stack([KernelDensity(bandwidth=width).fit(group).score_samples(NEW) for group in groups], -1)
        wanted, found = (values - values.ravel()[0] for values in (np.squeeze(wanted), found))  # less the norm
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=2e-3)


def test_it_is_fitted_once_and_learns_images_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path))
    spec = machine("digits", "ridge", 20)
    first = obtain(spec, None, CPU, lambda progress: None, lambda notice: None)
    monkeypatch.setattr("victims.kernel.obtain.fitted", None)
    again = obtain(spec, None, CPU, lambda progress: None, lambda notice: None)

    assert isinstance(again.model, KernelMachine)
    assert all(torch.equal(value, first.model.state_dict()[name]) for name, value in again.model.state_dict().items())
    assert not first.split.mean.any()
    assert torch.equal(again.model.points, torch.from_numpy(first.split.images).flatten(1))
    assert first.card.train_accuracy == 1


def test_a_logistic_regression_of_two_classes_has_one_output() -> None:
    assert KernelSpec(model="svc", outputs=2).outputs == 2
    with pytest.raises(ValidationError, match="set outputs=1"):
        KernelSpec(model="logistic", outputs=2)


def test_a_recipe_fits_its_architecture_alone() -> None:
    for architecture, training in ((KernelSpec(), NormalizedDescent()), (MLPSpec(), KernelFit())):
        with pytest.raises(ValidationError, match="a kernel machine is fitted by the recipe"):
            VictimSpec(name="wrong", dataset="digits", n=20, architecture=architecture, training=training)


def test_an_estimator_is_a_released_model(tmp_path: Path) -> None:
    estimator = SVC(gamma=0.2).fit(IMAGES, TWO)
    np.savez(tmp_path / "images.npz", train_images=IMAGES.reshape(-1, 8, 8), train_labels=TWO)
    spec = released(
        "mine",
        network=lambda: network_of(estimator),
        weights=weights_of(estimator, tmp_path / "weights.safetensors"),
        images=tmp_path / "images.npz",
    )
    victim = obtain(spec, None, CPU, lambda progress: None, lambda notice: None)

    assert spec.architecture == KernelSpec(model="svc", kernel="gaussian", outputs=1)
    with torch.no_grad():
        found = victim.model(torch.from_numpy(victim.split.inputs))
    np.testing.assert_allclose(found, estimator.decision_function(IMAGES), atol=1e-4)
    assert victim.card.train_accuracy == pytest.approx(estimator.score(IMAGES, TWO))
