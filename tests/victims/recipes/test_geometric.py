"""The geometric way between two values: what schedules of trainings and searches share."""

from __future__ import annotations

import pytest

from victims.recipes.geometric import geometric


@pytest.mark.parametrize("ends", [(2.0, 35.0), (0.5, 1e-4), (0.2, 0.1), (3.0, 3.0)])
def test_a_value_is_the_first_times_a_power_of_the_ratio_to_the_last_bit(ends: tuple[float, float]) -> None:
    first, last = ends
    way = [geometric(ends, step, 7) for step in range(8)]
    assert way == [first * (last / first) ** (step / 7) for step in range(8)]
    assert way[0] == first
    assert way[-1] == pytest.approx(last)
    assert way[2] / way[1] == pytest.approx(way[5] / way[4])
