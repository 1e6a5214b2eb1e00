"""The bounds on reconstruction: in [kappa, 1], monotone, tight where they can be, and above what an attack gets."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.experiments import rero
from victims.errors import UserError

shares = st.floats(1e-12, 1 - 1e-12)
positive = st.floats(1e-3, 50)
BOUNDS: dict[str, Callable[[float, float], float]] = {
    "concentrated": rero.concentrated,
    "gaussian": rero.gaussian,
}
every_bound = pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)


@every_bound
@given(kappa=shares, more=shares, privacy=positive, less=positive)
def test_a_bound_is_a_probability_and_grows_with_both(
    bound: Callable[[float, float], float], kappa: float, more: float, privacy: float, less: float
) -> None:
    assert 0 <= bound(kappa, privacy) <= 1
    (low, high), (strict, loose) = sorted((kappa, more)), sorted((privacy, less))
    assert bound(low, privacy) <= bound(high, privacy) + 1e-12
    assert bound(kappa, strict) <= bound(kappa, loose) + 1e-12


@given(kappa=shares, privacy=positive)
def test_no_bound_is_below_what_needs_no_model(kappa: float, privacy: float) -> None:
    assert rero.gaussian(kappa, privacy) >= kappa * (1 - 1e-9)
    assert rero.concentrated(kappa, privacy) >= kappa * (1 - 1e-9)


@given(kappa=shares, mu=st.floats(0.01, 10))
def test_the_gaussian_closed_form_is_below_the_bound_for_its_concentrated_privacy(kappa: float, mu: float) -> None:
    assert rero.gaussian(kappa, mu) <= rero.concentrated(kappa, mu**2 / 2) + 1e-12


@given(kappa=st.floats(1e-12, 0.5), rho=st.floats(1e-3, 20))
def test_corollary_4_is_theorem_2_at_the_best_order(kappa: float, rho: float) -> None:
    orders = 1 + np.geomspace(1e-3, 1e4, 400)
    best = np.exp(min(np.minimum(0, math.log(kappa) + orders * rho) * (orders - 1) / orders))
    assert rero.concentrated(kappa, rho) == pytest.approx(best, rel=1e-2)
    assert rho < math.log(1 / kappa) or rero.concentrated(kappa, rho) == 1


def test_kappa_of_records_is_a_supremum_over_all_guesses() -> None:
    pair = np.array([[0.0, 0], [1, 0], [10, 0], [20, 0]])
    assert rero.kappa_sample(pair, 0.4) == 0.25
    assert rero.kappa_sample(pair, 0.5) == 0.5  # a guess between the first two serves both, no record does
    assert rero.kappa_sample(pair, 100) == 1


def test_the_best_attack_on_a_gaussian_mechanism_reaches_the_closed_form_and_does_not_pass_it() -> None:
    """Of N records, orthogonal and equally likely, the likeliest given a noisy one: the tight case."""
    random, tries, count = np.random.default_rng(0), 20_000, 8
    for mu in (0.5, 1.5, 3.0):
        seen = random.normal(size=(tries, count))
        seen[:, 0] += mu
        success = np.mean(seen.argmax(1) == 0)
        bound = rero.gaussian(1 / count, mu)
        assert 1 / count < success < bound + 4 * math.sqrt(bound / tries)
        assert bound < 2 * success


def test_wrong_arguments_are_one_line() -> None:
    for call, line in (
        (lambda: rero.concentrated(1.1, 1), r"a share must lie in \[0, 1\], not 1.1"),
        (lambda: rero.concentrated(0.1, -1), "rho must be positive"),
        (lambda: rero.gaussian(0.1, math.nan), "mu must be positive"),
        (lambda: rero.kappa_sample(np.zeros((2, 3)), 0), "eta must be positive"),
    ):
        with pytest.raises(UserError, match=line):
            call()
