"""The missing record of a generalised linear model whose parameters were released with noise.

The gradient of the known records at the noisy parameters is -r (1, x) + H noise to first order, H being the Hessian.
The closed form x = G / G_0 amplifies the noise; here it is weighed against a prior: x is normal with the mean and
covariance of the known records, and r is one of their residuals, or near -G_0 where the noise is small beside them.
The estimate is the mean of x given the gradient, the least mean squared error under that model.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from victims.informed.glm import GLM, hessian

RESIDUALS = 64
"""Quantiles of the known records' residuals that r may be."""
SMALLEST_VARIANCE = 1e-9
"""Of a feature, relative to the largest: those that never vary stay at their mean."""


def expected_record(model: GLM, records: np.ndarray, targets: np.ndarray, deviation: float) -> np.ndarray:
    """Return the posterior mean (d,) of the missing record.

    Args:
        model: released with noise; with one output, and an intercept.
        records: (n, d), the known records.
        targets: (n, 1), their y.
        deviation: of the noise on each parameter, > 0.
    """
    coef, intercept = model.gradient(records, targets)
    gradient = np.concatenate([intercept, coef[0]])
    curvature = deviation * hessian(model, records)
    noise = curvature @ curvature.T
    centre, prior = records.mean(0), np.zeros_like(noise)
    prior[1:, 1:] = np.cov(records, rowvar=False)
    prior[np.diag_indices_from(prior)] += SMALLEST_VARIANCE * prior.diagonal().max()
    spread, axes = scipy.linalg.eigh(prior, noise)  # axes' noise axes = 1, axes' prior axes = spread
    residuals = _residuals(model.residuals(records, targets)[:, 0], -intercept[0], np.sqrt(noise[0, 0]))
    off = gradient + residuals[:, None] * np.concatenate([[1.0], centre])
    seen = off @ axes
    variances = 1 + residuals[:, None] ** 2 * spread
    logs = -0.5 * (seen**2 / variances + np.log(variances)).sum(1)
    weights = np.exp(logs - logs.max())
    shifts = -residuals[:, None] * ((seen / variances) @ axes.T) @ prior
    estimate: np.ndarray = centre + (weights / weights.sum()) @ shifts[:, 1:]
    return estimate


def _residuals(known: np.ndarray, seen: float, deviation: float) -> np.ndarray:
    """Return the values that r may have: those of the known records, or near its own where the noise leaves it."""
    if deviation < known.std() / 10:
        return seen + deviation * np.linspace(-4, 4, RESIDUALS)
    return np.asarray(np.quantile(known, (np.arange(RESIDUALS) + 0.5) / RESIDUALS))
