"""Names in a figure do not cover each other."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from bench.report.labels import Box, heights

ROOM = Box(0, 0, 10, 10)
PLACE = st.floats(0, 10, allow_subnormal=False)


def boxes(starts: list[tuple[float, float]], found: list[float], line: float) -> list[Box]:
    return [Box(x, y - line / 2, x + 3, y + line / 2) for (x, _), y in zip(starts, found, strict=True)]


@given(st.lists(st.tuples(PLACE, PLACE), max_size=8))
def test_names_and_points_keep_apart(starts: list[tuple[float, float]]) -> None:
    points = [Box(x - 0.1, y - 0.1, x - 0.01, y + 0.1) for x, y in starts]
    found = boxes(starts, heights(starts, [3] * len(starts), 0.5, ROOM, points), 0.5)

    assert not any(one.overlaps(other) for one, other in combinations(found, 2))
    assert not any(name.overlaps(point) for name in found for point in points)
    assert all(box.bottom >= 0 and box.top <= 10 for box in found)


def test_a_name_with_room_stays_where_it_is() -> None:
    assert heights([(0, 5), (0, 7)], [3, 3], 0.5, ROOM, []) == [5, 7]


def test_without_room_a_name_is_still_written() -> None:
    assert heights([(1, 5)], [3], 0.5, ROOM, [Box(0, 0, 10, 10)]) == [5]
