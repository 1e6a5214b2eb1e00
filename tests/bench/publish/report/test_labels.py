"""Names in a figure do not cover each other."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from bench.publish.report.figures.labels import Box, place

ROOM = Box(0, 0, 10, 10)
PLACE = st.floats(0, 10, allow_subnormal=False)


def placed(points: list[tuple[float, float]], taken: list[Box], width: float = 3) -> list[Box]:
    return place(points, [width] * len(points), 0.5, 0.2, ROOM, taken)


@given(st.lists(st.tuples(PLACE, PLACE), max_size=8))
def test_names_and_points_keep_apart(points: list[tuple[float, float]]) -> None:
    dots = [Box(x - 0.1, y - 0.1, x + 0.1, y + 0.1) for x, y in points]
    names = placed(points, dots)

    assert not any(one.overlaps(other) for one, other in combinations(names, 2))
    assert not any(name.overlaps(dot) for name in names for dot in dots)
    assert all(ROOM.holds(name) for name in names)


def test_a_name_stands_right_of_its_point() -> None:
    assert placed([(1, 5)], []) == [Box(1.2, 4.75, 4.2, 5.25)]


def test_a_name_without_room_on_the_right_stands_left() -> None:
    (name,) = placed([(8, 5)], [])
    assert (name.right, name.bottom) == (7.8, 4.75)


def test_without_room_a_name_is_still_written() -> None:
    assert placed([(1, 5)], [ROOM]) == [Box(1.2, 4.75, 4.2, 5.25)]
