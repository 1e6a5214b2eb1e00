"""Bounds on naming one of N: against numbers by integration, the closed form, and a library's accountant."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from bench.experiments import rero
from victims.errors import UserError

ORACLE = {0.37: (0.218, 0.203), 1.0: (0.440, 0.385), 2.0: (0.802, 0.711), 4.0: (0.998, 0.986)}
"""By mu, for N = 8: the bound, and the success of the best attack on orthogonal gradients."""


@pytest.mark.parametrize("mu", ORACLE)
def test_the_gaussian_case_has_its_numbers(mu: float) -> None:
    bound, attack = ORACLE[mu]
    assert rero.gaussian(1 / 8, mu) == pytest.approx(bound, rel=0.01)
    assert rero.orthogonal(8, mu) == pytest.approx(attack, rel=0.01)


@pytest.mark.parametrize("size", [2, 8, 128])
def test_the_best_attack_on_orthogonal_gradients_lies_between_chance_and_the_bound(size: int) -> None:
    assert rero.orthogonal(size, 0.0) == pytest.approx(1 / size)
    for mu in (0.1, 1.0, 3.0, 30.0):
        assert 1 / size < rero.orthogonal(size, mu) <= rero.gaussian(1 / size, mu) + 1e-9
    two_sides = 0.5 * (1 + math.erf(1 / 2))  # of two records: Phi(mu / sqrt(2)) at mu = 1
    assert rero.orthogonal(2, 1.0) == pytest.approx(two_sides)


@pytest.mark.parametrize("mu", [0.37, 2.0])
def test_where_all_records_are_in_every_batch_it_is_the_closed_form(mu: float) -> None:
    for seed in range(3):
        found = rero.sampled(1 / 8, math.sqrt(10) / mu, 10, 1.0, seed, samples=100_000)
        assert found == pytest.approx(rero.gaussian(1 / 8, mu), abs=4 * 0.5 / math.sqrt(100_000))


@pytest.mark.parametrize(("multiplier", "rate"), [(3.9, 0.1), (0.84, 0.1), (1.5, 0.6)])
def test_of_sampled_steps_it_is_what_an_accountant_bounds_it_by(multiplier: float, rate: float) -> None:
    """B_kappa is the least of kappa e^epsilon + delta(epsilon), over all epsilon."""
    loss: Any = from_gaussian_mechanism(multiplier, sampling_prob=rate, value_discretization_interval=1e-3)
    epsilons = np.linspace(-20, 20, 4001)
    deltas = np.asarray(loss.self_compose(30)._pmf_remove.get_delta_for_epsilon(epsilons))
    for kappa in (0.5, 1 / 8):
        accounted = float((kappa * np.exp(epsilons) + deltas).min())
        found = rero.sampled(kappa, multiplier, 30, rate)
        assert found == pytest.approx(accounted, abs=0.004)
        assert found > kappa


def test_what_no_training_has_is_refused() -> None:
    for wrong in ((0.0, 1.0, 5, 0.5), (1.0, 1.0, 5, 0.5), (0.5, 0.0, 5, 0.5), (0.5, 1.0, 0, 0.5), (0.5, 1.0, 5, 0.0)):
        with pytest.raises(UserError, match="no training has kappa"):
            rero.sampled(*wrong)
