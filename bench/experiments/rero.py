"""Bounds on reconstruction: how often can any attack succeed against a differentially private mechanism?

A mechanism is (eta, gamma)-robust to reconstruction when no attack on a record drawn from a prior comes within eta of
it more often than gamma (Balle, Cherubin, Hayes 2022, Definition 2). kappa is what an attack gets that looks at
nothing: the supremum over *all* guesses z0 of P[loss(Z, z0) <= eta]. Bounds lie between kappa and 1.

The mechanism's privacy is meant for two data sets, one with the record and one without (its contribution zeroed). On
the data set without the record no attack succeeds more often than kappa, so adding or removing one record is the
relation that counts.

The tightest bound is the blow-up function B_kappa(mu, nu), the largest mu(E) of an event E with nu(E) <= kappa: mu is
what the training releases with the record, nu what it releases without it (Hayes, Mahloujifar, Balle 2023). `gaussian`
is it for full batches, `sampled` for sampled ones. Noise is in units of the clipping norm.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

from victims.errors import UserError

SAMPLES = 200_000
AT_ONCE = 2_000_000
"""Normal draws held in memory, over all steps."""


def concentrated(kappa: float, rho: float) -> float:
    """Return the bound for rho zero-concentrated differential privacy: exp(-(sqrt(log 1/kappa) - sqrt(rho))^2).

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
    """Return the bound for mu-Gaussian differential privacy: Phi(Phi^-1(kappa) + mu), the tightest for that mechanism.

    Args:
        kappa: as above.
        mu: > 0; a Gaussian mechanism of noise multiplier sigma, T times over all records, has sqrt(T) / sigma.

    Source:
        Hayes, Mahloujifar, Balle 2023, the bound by the blow-up function, in closed form for full batches.
    """
    _check(kappa, mu=mu)
    return float(norm.cdf(norm.ppf(kappa) + mu))


def sampled(kappa: float, multiplier: float, steps: int, rate: float, seed: int = 0, samples: int = SAMPLES) -> float:
    """Return the blow-up function of Poisson sampled steps, by Monte Carlo.

    mu is N(b, s^2 I) in R^steps with b Bernoulli(rate) in every coordinate, nu is N(0, s^2 I). By the lemma of Neyman
    and Pearson the best event is a large ratio d mu / d nu. So 1 - B is the sum of the smallest ratios of draws from
    nu, a share 1 - kappa of them, over the number of draws. With c the largest of these ratios the standard error is
    at most sqrt(c (1 - B) / samples).

    Args:
        kappa: success without the training, 1/N, in (0, 1).
        multiplier: s, the standard deviation of the noise, > 0.
        steps: the number of steps.
        rate: the probability with which the record is in a batch, in (0, 1].
        seed: of the draws.
        samples: number of draws.

    Raises:
        UserError: an argument is out of its range.

    Source:
        Hayes, Mahloujifar, Balle 2023, the Monte Carlo estimate of their bound for DP-SGD.
    """
    if not (0 < kappa < 1 and multiplier > 0 and steps > 0 and 0 < rate <= 1):
        raise UserError(f"no training has kappa {kappa:g}, noise {multiplier:g}, {steps} steps, sampling rate {rate:g}")
    random = np.random.default_rng(seed)
    size = max(1, AT_ONCE // steps)
    parts = [min(size, samples - first) for first in range(0, samples, size)]
    ratios = np.sort(np.concatenate([_log_ratios(random, multiplier, (part, steps), rate) for part in parts]))
    rest = float(np.exp(ratios[: round((1 - kappa) * samples)]).sum() / samples)
    return min(1.0, max(kappa, 1 - rest))


def _log_ratios(random: np.random.Generator, multiplier: float, shape: tuple[int, int], rate: float) -> np.ndarray:
    """Return log d mu / d nu at draws from nu, (draws,) for a shape of (draws, steps)."""
    exponents = (multiplier * random.standard_normal(shape) - 0.5) / multiplier**2
    if rate == 1:
        return np.asarray(exponents.sum(1))
    return np.asarray(np.logaddexp(math.log1p(-rate), math.log(rate) + exponents).sum(1))


def orthogonal(size: int, mu: float) -> float:
    """Return the best attack's success at naming one of N records with orthogonal gradients of the clipping norm.

    The attack takes the largest of N normals of variance 1; the record's has mean mu, the others 0. Its success is the
    integral of phi(x - mu) Phi(x)^(N - 1).

    Args:
        size: N, >= 2.
        mu: sqrt(steps) / s for full batches, >= 0.
    """
    tail = 12.0
    value, _ = quad(lambda x: norm.pdf(x - mu) * norm.cdf(x) ** (size - 1), mu - tail, mu + tail, points=(mu,))
    return float(value)


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
