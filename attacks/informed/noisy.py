"""The missing record of a generalised linear model whose parameters were released with noise.

The gradient of the known records at the noisy parameters is -r (1, x) + H noise to first order, H being the Hessian.
The closed form x = G / G_0 amplifies the noise. The estimate here is the posterior mean of x given the gradient, which
has the least mean squared error. The prior of x is normal, with the mean and covariance of the known records; r is one
of their residuals, or near -G_0 if the noise is small beside them.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from victims.informed.glm import GLM, hessian

RESIDUALS = 64
"""Number of values that r may have, quantiles of the known records' residuals."""
SMALLEST_VARIANCE = 1e-9
"""Variance that is added to every feature, relative to the largest; a constant feature stays at its mean."""


def expected_record(model: GLM, records: np.ndarray, targets: np.ndarray, deviation: float) -> np.ndarray:
    """Return the posterior mean (d,) of the missing record.

    Args:
        model: released with noise; with one output, and an intercept.
        records: (n, d), the known records.
        targets: (n, 1), their y.
        deviation: standard deviation of the noise on each parameter, > 0.
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
    """Return the values (RESIDUALS,) that r may have: known residuals, or values near `seen` if the noise is small.

    Args:
        known: (n,) residuals of the known records.
        seen: r as the noisy gradient of the intercept has it.
        deviation: standard deviation of the noise in `seen`.
    """
    if deviation < known.std() / 10:
        return seen + deviation * np.linspace(-4, 4, RESIDUALS)
    return np.asarray(np.quantile(known, (np.arange(RESIDUALS) + 0.5) / RESIDUALS))
