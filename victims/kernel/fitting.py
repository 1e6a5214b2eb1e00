"""Fits kernel machines (Barzilai et al. 2025) by scikit-learn, on kernels between images that are computed here."""

from __future__ import annotations

import numpy as np
import torch

from victims.kernel.machine import KernelMachine, kernel_values, squared_distances
from victims.kernel.spec import KernelFit, KernelSpec

SMALLEST_EIGENVALUE = 1e-12
"""Directions of a kernel matrix whose eigenvalue is below this share of the largest are left out."""


def fitted(spec: KernelSpec, fit: KernelFit, images: np.ndarray, labels: np.ndarray) -> KernelMachine:
    """Return the machine that scikit-learn fits.

    Args:
        spec: the machine.
        fit: gamma and penalty.
        images: (n, C, H, W) in [0, 1].
        labels: (n,) classes from 0.
    """
    points = torch.from_numpy(np.asarray(images, np.float32)).flatten(1)
    squared = squared_distances(points.double(), points.double())
    gram = kernel_values(spec.kernel, float(np.float32(fit.gamma)), squared).numpy()
    targets = np.eye(max(spec.outputs, 2))[labels] if spec.outputs > 1 else np.ones((len(labels), 1))
    if spec.outputs == 1 and spec.model != "density":
        targets[labels == 0] = -1 if spec.model == "ridge" else 0
    if spec.model == "density":
        coefficients, intercept = targets / targets.sum(0), np.zeros(spec.outputs)
    elif spec.model == "ridge":
        coefficients, intercept = _ridge(gram, targets, fit.penalty), np.zeros(spec.outputs)
    elif spec.model == "svc":
        coefficients, intercept = _svc(gram, targets, fit.penalty)
    else:
        coefficients, intercept = _logistic(gram, labels, fit.penalty)
    return KernelMachine(
        spec.model, spec.kernel, fit.gamma, points, torch.from_numpy(coefficients), torch.from_numpy(intercept)
    )


def _ridge(gram: np.ndarray, targets: np.ndarray, penalty: float) -> np.ndarray:
    from sklearn.kernel_ridge import KernelRidge

    estimator = KernelRidge(alpha=penalty, kernel="precomputed").fit(gram, targets)
    return np.asarray(estimator.dual_coef_)


def _svc(gram: np.ndarray, targets: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (n, C), 0 where an image is no support vector, and intercepts (C,)."""
    from sklearn.svm import SVC

    coefficients, intercept = np.zeros(targets.shape), np.zeros(targets.shape[1])
    for output, target in enumerate(targets.T):
        estimator = SVC(C=1 / penalty, kernel="precomputed", tol=1e-6).fit(gram, target)
        coefficients[estimator.support_, output] = estimator.dual_coef_[0]
        intercept[output] = estimator.intercept_[0]
    return coefficients, intercept


def _logistic(gram: np.ndarray, labels: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and intercepts of a logistic regression on features Phi with Phi Phi' = `gram`."""
    from sklearn.linear_model import LogisticRegression

    values, vectors = np.linalg.eigh(gram)
    kept = values > SMALLEST_EIGENVALUE * values.max()
    roots = np.sqrt(values[kept])
    estimator = LogisticRegression(C=1 / penalty, max_iter=10_000, tol=1e-8).fit(vectors[:, kept] * roots, labels)
    return np.asarray((vectors[:, kept] / roots) @ estimator.coef_.T), np.asarray(estimator.intercept_)
