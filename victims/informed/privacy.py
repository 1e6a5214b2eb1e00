"""Differential privacy: how much noise an epsilon takes."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from victims.errors import UserError
from victims.informed.spec import GLMArchitecture, GLMSpec, InformedSpec, Newton, OutputPrivacy
from victims.recipes import Privacy

GRID, WIDEST = 1e-4, 500.0
"""Step of the grid of privacy losses on which sampled steps are composed, relative to epsilon where that is above 1;
and the largest step, whose exponential is still a number."""


def noise_multiplier(privacy: Privacy | OutputPrivacy, steps: int = 1) -> float:
    """Return the standard deviation of the noise that each of `steps` steps adds, relative to the sensitivity.

    Steps over all records compose to one Gaussian mechanism of sqrt(steps) times less noise, whose exact (epsilon,
    delta) is Balle and Wang's (2018). Sampled steps are composed numerically, by their privacy loss distribution.

    Raises:
        UserError: dp-accounting is not installed.
    """
    try:
        from dp_accounting import get_sigma_gaussian
    except ImportError:
        raise UserError("private victims need dp-accounting; pip install 'reconstruction-bench[privacy]'") from None
    if isinstance(privacy, Privacy) and privacy.sampling_rate is not None:
        return _sampled_multiplier(privacy.epsilon, privacy.delta, privacy.sampling_rate, steps)
    with np.errstate(divide="ignore"):  # its search passes through noise of zero
        return float(get_sigma_gaussian(privacy.epsilon, privacy.delta)) * math.sqrt(steps)


@lru_cache
def _sampled_multiplier(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """Return the noise multiplier of Poisson sampled steps; it takes about two seconds."""
    from dp_accounting import (
        GaussianDpEvent,
        NeighboringRelation,
        PoissonSampledDpEvent,
        SelfComposedDpEvent,
        calibrate_dp_mechanism,
    )
    from dp_accounting.pld import PLDAccountant

    step = min(GRID * max(1, epsilon), WIDEST)

    def accountant() -> PLDAccountant:
        return PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=step)

    def event(multiplier: float) -> SelfComposedDpEvent:
        return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier)), steps)

    return float(calibrate_dp_mechanism(accountant, event, epsilon, delta, tol=1e-6))


def gaussian_privacy(spec: InformedSpec | GLMSpec) -> float | None:
    """Return mu such that a victim's training is mu-Gaussian differentially private.

    None if it is not private, or sampled: that is no Gaussian mechanism.
    """
    privacy = spec.training.privacy
    if privacy is None or (isinstance(privacy, Privacy) and privacy.sampling_rate is not None):
        return None
    return 1 / noise_multiplier(privacy)


def output_deviation(architecture: GLMArchitecture, training: Newton, count: int, dimension: int) -> float:
    """Return the noise's standard deviation on released parameters, 0 without privacy; arguments: see `sensitivity`."""
    privacy = training.privacy
    if privacy is None:
        return 0.0
    reach = sensitivity(architecture, training.penalty(count), privacy, count, dimension)
    return reach * noise_multiplier(privacy)


def sensitivity(
    architecture: GLMArchitecture, penalty: float, privacy: OutputPrivacy, count: int, dimension: int
) -> float:
    """Return how far one record can move the optimum, whatever the others are.

    The objective is mu-strongly convex, so a record of gradient at most g moves the optimum by at most g / mu. With
    features in [0, 1] g is at most R = sqrt(d + 1), with several classes sqrt(2) R. A linear model's gradient is not
    bounded, but its optimum is, by sqrt(count) Y / (2 sqrt(mu)): the record's residual is then at most Y + R times
    that, and it moves the optimum by its residual times the largest a / (mu + a^2) for a <= R.

    Args:
        architecture: family and intercept; the regulariser must include the intercept.
        penalty: mu.
        privacy: holds Y, the bound on |y|.
        count: the number of records.
        dimension: d.
    """
    radius = math.sqrt(dimension + (architecture.intercept != "none"))
    if architecture.family == "linear":
        largest = privacy.label_bound * (1 + radius * math.sqrt(count) / (2 * math.sqrt(penalty)))
        reach = min(radius, math.sqrt(penalty))
        return largest * reach / (penalty + reach**2)
    return radius * (math.sqrt(2) if architecture.family == "multinomial" else 1) / penalty
