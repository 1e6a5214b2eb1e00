"""The kernel machine that a fitted scikit-learn estimator is, read off its attributes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from victims.errors import UserError
from victims.kernel.machine import KernelMachine
from victims.kernel.spec import Kernel, Model

COVERED = (
    "KernelRidge, SVC of two classes, OneVsRestClassifier(SVC) and Nystroem before a LogisticRegression with the "
    "kernel rbf; GaussianProcessRegressor with RBF or Matern(nu=0.5); KernelDensity, gaussian or exponential"
)
"""What can be read."""


@dataclass(frozen=True)
class _Parts:
    """A machine in numpy: points (n, d), coefficients (n, C), intercept (C,), see `KernelMachine`."""

    model: Model
    kernel: Kernel
    gamma: float
    points: np.ndarray
    coefficients: np.ndarray
    intercept: np.ndarray


def is_kernel_machine(estimator: Any) -> bool:
    """Say whether an estimator is of a class that `machine_of` reads, if its kernel is covered too."""
    return _kind(estimator) is not None


def machine_of(estimator: Any) -> KernelMachine:
    """Return the machine whose answers are the estimator's decision function, prediction or log density.

    It stores the estimator's training images, or its support vectors.

    Args:
        estimator: a fitted estimator, one of `COVERED`.

    Raises:
        UserError: it is none of them, not fitted, or of another kernel.
    """
    name, kind = type(estimator).__name__, _kind(estimator)
    if kind is None:
        raise UserError(f"{name} is no kernel machine that can be read; there are: {COVERED}")
    read = {
        "ridge": _ridge,
        "svc": _svc,
        "rest": _rest,
        "density": _density,
        "process": _process,
        "logistic": _logistic,
    }
    try:
        parts = read[kind](estimator)
    except AttributeError:
        raise UserError(f"{name} is not fitted; fit it before it is read") from None
    tensors = (torch.from_numpy(np.array(part)) for part in (parts.points, parts.coefficients, parts.intercept))
    return KernelMachine(parts.model, parts.kernel, parts.gamma, *tensors)


def _kind(estimator: Any) -> str | None:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.kernel_approximation import Nystroem
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.neighbors import KernelDensity
    from sklearn.pipeline import Pipeline
    from sklearn.svm import SVC

    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps]
        fits = len(steps) == 2 and isinstance(steps[0], Nystroem) and isinstance(steps[1], LogisticRegression)
        return "logistic" if fits else None
    if isinstance(estimator, OneVsRestClassifier):
        return "rest" if isinstance(estimator.estimator, SVC) else None
    classes = {KernelRidge: "ridge", SVC: "svc", KernelDensity: "density", GaussianProcessRegressor: "process"}
    return next((kind for known, kind in classes.items() if isinstance(estimator, known)), None)


def _require_rbf(name: str, kernel: Any) -> None:
    if kernel != "rbf":
        told = kernel if isinstance(kernel, str) else type(kernel).__name__
        raise UserError(f"{name} with the kernel {told!r} is not covered; there are: {COVERED}")


def _ridge(estimator: Any) -> _Parts:
    _require_rbf("KernelRidge", estimator.kernel)
    points = np.asarray(estimator.X_fit_)
    gamma = estimator.gamma if estimator.gamma is not None else 1 / points.shape[1]
    coefficients = np.asarray(estimator.dual_coef_).reshape(len(points), -1)
    return _Parts("ridge", "gaussian", gamma, points, coefficients, np.zeros(coefficients.shape[1]))


def _svc(estimator: Any) -> _Parts:
    _require_rbf("SVC", estimator.kernel)
    if len(estimator.classes_) != 2:
        hint = "its answers count the votes of pairs of classes; fit OneVsRestClassifier(SVC())"
        raise UserError(f"SVC of {len(estimator.classes_)} classes is not covered: {hint}")
    dual = np.asarray(estimator.dual_coef_)
    return _Parts("svc", "gaussian", estimator._gamma, estimator.support_vectors_, dual.T, estimator.intercept_)


def _rest(estimator: Any) -> _Parts:
    """Return the machines of all classes as one, on the union of their support vectors."""
    parts = [_svc(one) for one in estimator.estimators_]
    points, place = np.unique(np.concatenate([part.points for part in parts]), axis=0, return_inverse=True)
    coefficients, first = np.zeros((len(points), len(parts))), 0
    for output, part in enumerate(parts):
        own = place[first : first + len(part.points)]
        np.add.at(coefficients[:, output], own, part.coefficients[:, 0])
        first += len(part.points)
    if len({part.gamma for part in parts}) > 1:
        raise UserError("OneVsRestClassifier(SVC) whose machines differ in gamma is not covered; fit it with one")
    intercept = np.concatenate([part.intercept for part in parts])
    return _Parts("svc", "gaussian", parts[0].gamma, points, coefficients, intercept)


def _density(estimator: Any) -> _Parts:
    """Return the machine of a log density; its intercept is the logarithm of the normalisation."""
    points, width = np.asarray(estimator.tree_.data), float(estimator.bandwidth_)
    if estimator.metric != "euclidean" or estimator.kernel not in ("gaussian", "exponential"):
        told = f"the metric {estimator.metric!r} and the kernel {estimator.kernel!r}"
        raise UserError(f"KernelDensity with {told} is not covered; there are: {COVERED}")
    kernel: Kernel = "gaussian" if estimator.kernel == "gaussian" else "laplace"
    weights = estimator.tree_.sample_weight
    shares = np.full(len(points), 1 / len(points)) if weights is None else np.asarray(weights) / np.sum(weights)
    gamma = 1 / (2 * width**2) if kernel == "gaussian" else 1 / width
    parts = _Parts("density", kernel, gamma, points, shares[:, None], np.zeros(1))
    machine = KernelMachine("density", kernel, gamma, *map(torch.from_numpy, (points, parts.coefficients, np.zeros(1))))
    with torch.no_grad():
        bare = float(machine(torch.from_numpy(points[:1].copy()))[0])
    offset = float(estimator.score_samples(points[:1])[0]) - bare
    return _Parts("density", kernel, gamma, points, shares[:, None], np.array([offset]))


def _process(estimator: Any) -> _Parts:
    """Return the mean of a Gaussian process, of a kernel that may have a constant factor."""
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, Product

    kernel, factor = estimator.kernel_, 1.0
    if isinstance(kernel, Product) and isinstance(kernel.k1, ConstantKernel):
        kernel, factor = kernel.k2, float(kernel.k1.constant_value)
    width = np.ravel(kernel.length_scale) if isinstance(kernel, RBF) else np.zeros(0)  # Matern is an RBF too
    matern = isinstance(kernel, Matern)
    if len(width) != 1 or (matern and not math.isclose(kernel.nu, 0.5)):
        raise UserError(f"GaussianProcessRegressor with {kernel} is not covered; there are: {COVERED}")
    points = np.asarray(estimator.X_train_)
    coefficients = factor * np.asarray(estimator.alpha_).reshape(len(points), -1) * estimator._y_train_std
    intercept = np.broadcast_to(estimator._y_train_mean, coefficients.shape[1:])
    gamma = 1 / float(width[0]) if matern else 1 / (2 * float(width[0]) ** 2)
    return _Parts("ridge", "laplace" if matern else "gaussian", gamma, points, coefficients, intercept)


def _logistic(estimator: Any) -> _Parts:
    features, model = (step for _, step in estimator.steps)
    _require_rbf("Nystroem", features.kernel)
    points = np.asarray(features.components_)
    gamma = features.gamma if features.gamma is not None else 1 / points.shape[1]
    coefficients = np.asarray(features.normalization_).T @ model.coef_.T
    return _Parts("logistic", "gaussian", gamma, points, coefficients, model.intercept_)
