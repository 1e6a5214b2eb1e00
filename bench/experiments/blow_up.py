"""How often can any attack name the record among N equally likely ones: the blow-up function of a private training.

B_kappa(mu, nu) is the largest mu(E) of an event E with nu(E) <= kappa. With mu what the training releases with the
record, nu what it releases without it, and kappa = 1/N, no attack names the record more often (Hayes, Mahloujifar,
Balle 2023). Full batches have it in closed form: `rero.gaussian`. Sampled ones are here. Noise is in units of the
clipping norm.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.stats import binomtest, norm

from bench.experiments import rero
from bench.store.records import RunRecord
from victims.errors import UserError
from victims.informed.privacy import noise_multiplier
from victims.informed.spec import AnySpec, InformedSpec

SAMPLES = 200_000
AT_ONCE = 2_000_000
"""Normal draws held in memory, over all steps."""


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


def naming(record: RunRecord, spec: AnySpec) -> dict[str, float | None]:
    """Return how often an attack named the record among N, beside chance and bounds; empty without a prior.

    `success` is the share of targets, with a 95% interval from `success_low` to `success_high`; `null_success` is the
    strictest null control's share. `chance` is 1/N, and `bound` is what no attack on the trace exceeds. `bound_zcdp` is
    Corollary 4 of Balle et al. 2022, and `orthogonal` is the best attack's success if the records' gradients were
    orthogonal and of the clipping norm; these two are None for sampled batches.
    """
    if not isinstance(spec, InformedSpec) or spec.prior is None or record.n_good is None:
        return {}
    privacy, steps, chance = spec.training.privacy, spec.training.epochs, 1 / spec.prior
    assert privacy is not None
    multiplier, rate = noise_multiplier(privacy, steps), privacy.sampling_rate
    mu = math.sqrt(steps) / multiplier
    interval = binomtest(record.n_good, record.n).proportion_ci()
    return {
        "noise_multiplier": multiplier,
        "success": record.n_good / record.n,
        "success_low": interval.low,
        "success_high": interval.high,
        "null_success": None if record.null_n_good is None else record.null_n_good / record.n,
        "chance": chance,
        "bound": rero.gaussian(chance, mu) if rate is None else sampled(chance, multiplier, steps, rate),
        "bound_zcdp": rero.concentrated(chance, mu**2 / 2) if rate is None else None,
        "orthogonal": orthogonal(spec.prior, mu) if rate is None else None,
    }
