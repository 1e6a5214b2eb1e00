"""Bounds on reconstruction: how often can any attack succeed against a differentially private mechanism?

A mechanism is (eta, gamma)-robust to reconstruction when no attack on a record drawn from a prior comes within eta of
it more often than gamma (Balle, Cherubin, Hayes 2022, Definition 2). kappa is what an attack gets that looks at
nothing: the supremum over *all* guesses z0 of P[loss(Z, z0) <= eta]. Bounds lie between kappa and 1.

The mechanism's privacy is meant for two data sets, one with the record and one without (its contribution zeroed). On
the data set without the record no attack succeeds more often than kappa, so adding or removing one record is the
relation that counts.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import norm

from victims.errors import UserError


def pure(kappa: float, epsilon: float) -> float:
    """Bound for epsilon-differential privacy: kappa e^epsilon.

    Args:
        kappa: success without the mechanism's output, in [0, 1].
        epsilon: > 0.

    Raises:
        UserError: an argument is out of its range; likewise below.

    Source:
        Balle et al. 2022, Corollary 3.
    """
    _check(kappa, epsilon=epsilon)
    return 0.0 if kappa == 0 else math.exp(min(0.0, math.log(kappa) + epsilon))


def renyi(kappa: float, order: float, epsilon: float) -> float:
    """Bound for (order, epsilon) Renyi differential privacy: (kappa e^epsilon)^((order - 1) / order).

    Args:
        kappa: as above.
        order: alpha > 1.
        epsilon: > 0.

    Source:
        Balle et al. 2022, Theorem 2.
    """
    _check(kappa, epsilon=epsilon)
    if not order > 1:
        raise UserError(f"the order {order} of a Renyi divergence must be greater than 1")
    return float(pure(kappa, epsilon) ** ((order - 1) / order))


def concentrated(kappa: float, rho: float) -> float:
    """Bound for rho zero-concentrated differential privacy: exp(-(sqrt(log 1/kappa) - sqrt(rho))^2).

    It says something where rho < log 1/kappa only, and is 1 elsewhere: Theorem 2 at the best order.

    Args:
        kappa: as above.
        rho: > 0; a Gaussian mechanism of noise multiplier sigma, T times, has T / (2 sigma^2).

    Source:
        Balle et al. 2022, Corollary 4.
    """
    _check(kappa, rho=rho)
    if kappa == 0:
        return 0.0
    distance = -math.log(kappa)
    return math.exp(-((math.sqrt(distance) - math.sqrt(rho)) ** 2)) if rho < distance else 1.0


def gaussian(kappa: float, mu: float) -> float:
    """Bound for mu-Gaussian differential privacy: Phi(Phi^-1(kappa) + mu), the tightest for that mechanism.

    Args:
        kappa: as above.
        mu: > 0; a Gaussian mechanism of noise multiplier sigma, T times over all records, has sqrt(T) / sigma.

    Source:
        Hayes, Mahloujifar, Balle 2023, the bound by the blow-up function, in closed form for full batches.
    """
    _check(kappa, mu=mu)
    return float(norm.cdf(norm.ppf(kappa) + mu))


def approximate_delta(gamma: float, epsilon: float) -> float:
    """Return the delta of the privacy that robustness to reconstruction of one of any two records implies.

    A mechanism from which no attack tells which of two equally likely records it saw more often than gamma is
    (epsilon, delta)-differentially private with delta = max(0, (e^epsilon + 1) gamma - e^epsilon).

    Args:
        gamma: success, in [1/2, 1].
        epsilon: > 0.

    Source:
        Balle et al. 2022, Theorem 5.
    """
    _check(gamma, epsilon=epsilon)
    if gamma == 1:
        return 1.0
    return max(0.0, gamma - math.exp(epsilon) * (1 - gamma)) if epsilon < math.log(1 / (1 - gamma)) else 0.0


def kappa_ball(eta: float, dimension: int, radius: float = 1.0) -> float:
    """Return kappa of the uniform distribution on a Euclidean ball, for the Euclidean distance: (eta / radius)^d.

    Args:
        eta: > 0.
        dimension: d.
        radius: of the ball.

    Source:
        Balle et al. 2022, Proposition 6 as derived anew: no ball of radius eta holds a larger part of the other.
    """
    _check(0, eta=eta, dimension=dimension, radius=radius)
    return min(1.0, eta / radius) ** dimension


def kappa_gaussian(eta: float, dimension: int, deviation: float = 1.0) -> float:
    """Return a bound on kappa of N(mean, deviation^2 I) for the Euclidean distance, by Chernoff's inequality.

    exp(d/2 (1 - t + log t)) with t = eta^2 / (deviation^2 d), and 1 from t = 1 on.

    Args:
        eta: > 0.
        dimension: d.
        deviation: standard deviation of each coordinate.

    Source:
        Balle et al. 2022, Proposition 7.
    """
    _check(0, eta=eta, dimension=dimension, deviation=deviation)
    t = eta**2 / (deviation**2 * dimension)
    return math.exp(dimension / 2 * (1 - t + math.log(t))) if t < 1 else 1.0


def kappa_sample(records: np.ndarray, eta: float) -> float:
    """Return a bound on kappa of the uniform distribution on some records, for the Euclidean distance.

    The supremum is over all guesses, not over the records: a guess that is within eta of several records has them
    within 2 eta of each other, so no guess serves more records than lie within 2 eta of one of them.

    Args:
        records: (k, d).
        eta: > 0.
    """
    _check(0, eta=eta)
    rows = records.astype(np.float64)
    squares = (rows**2).sum(1)
    distances = squares[:, None] + squares - 2 * rows @ rows.T
    return float((distances <= (2 * eta) ** 2 + 1e-9 * squares.max()).sum(1).max()) / len(rows)


def _check(share: float, **positive: float) -> None:
    """Raise a UserError unless `share` is in [0, 1] and all others are positive."""
    if not 0 <= share <= 1:
        raise UserError(f"a share must lie in [0, 1], not {share}")
    for name, value in positive.items():
        if not value > 0:
            raise UserError(f"{name} must be positive, not {value}")
