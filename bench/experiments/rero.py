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


def concentrated(kappa: float, rho: float) -> float:
    """Bound for rho zero-concentrated differential privacy: exp(-(sqrt(log 1/kappa) - sqrt(rho))^2).

    It says something where rho < log 1/kappa only, and is 1 elsewhere: the best, over the orders a, of the bounds
    (kappa e^epsilon)^((a - 1) / a) for the Renyi divergences epsilon = a rho (Theorem 2).

    Args:
        kappa: success without the mechanism's output, in [0, 1].
        rho: > 0; a Gaussian mechanism of noise multiplier sigma, T times, has T / (2 sigma^2).

    Raises:
        UserError: an argument is out of its range; likewise below.

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
