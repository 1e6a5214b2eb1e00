"""How often an attack named the record among N equally likely ones, beside chance and the bounds on any attack."""

from __future__ import annotations

import math

from scipy.stats import binomtest

from bench.experiments import rero
from bench.store.records import RunRecord
from victims.informed.privacy import noise_multiplier
from victims.informed.spec import AnySpec, InformedSpec


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
        "bound": rero.gaussian(chance, mu) if rate is None else rero.sampled(chance, multiplier, steps, rate),
        "bound_zcdp": rero.concentrated(chance, mu**2 / 2) if rate is None else None,
        "orthogonal": rero.orthogonal(spec.prior, mu) if rate is None else None,
    }
