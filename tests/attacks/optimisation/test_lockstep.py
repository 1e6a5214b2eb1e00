"""Many minimisations at once."""

from __future__ import annotations

import numpy as np
import pytest

from attacks.optimisation.lockstep import minimise_in_lockstep


def test_many_minimisations_end_where_each_alone_does_and_an_error_stops_them_all() -> None:
    centres = np.array([[0.2, 0.7], [-1.0, 0.5], [0.9, 2.0], [0.5, 0.5]])
    rounds = []

    def evaluate(problems: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rounds.append(problems.tolist())
        difference = points - centres[problems]
        curvature = (1 + problems)[:, None] * np.array([1.0, 30.0])
        return (curvature * difference**2).sum(1), 2 * curvature * difference

    starts = np.tile([0.5, 0.5], (4, 1))
    ended, count = minimise_in_lockstep(evaluate, starts, 50)
    np.testing.assert_allclose(ended, centres.clip(0, 1), atol=1e-6)
    assert rounds[0] == [0, 1, 2, 3]
    assert count == sum(map(len, rounds))
    again = minimise_in_lockstep(evaluate, starts, 50)[0]
    assert np.array_equal(ended, again)
    early, spent = minimise_in_lockstep(evaluate, starts, 50, lambda spent: spent >= 8)
    assert 8 <= spent < count
    assert (evaluate(np.arange(4), early)[0] <= evaluate(np.arange(4), starts)[0]).all()
    assert not np.array_equal(early, starts)
    with pytest.raises(ZeroDivisionError):
        minimise_in_lockstep(lambda problems, points: 1 // 0, starts, 50)


def test_a_search_that_is_ended_returns_the_best_that_it_has_seen() -> None:
    values = iter([1.0, 5.0])

    def evaluate(problems: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.array([next(values)]), np.ones((1, 2))

    ended, count = minimise_in_lockstep(evaluate, np.array([[0.5, 0.5]]), 50, lambda spent: spent >= 2)
    assert (ended.tolist(), count) == ([[0.5, 0.5]], 2)
