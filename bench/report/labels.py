"""Where names stand beside points, so that none covers another or a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_STEPS = sorted(range(-60, 61), key=abs)
"""How many half lines a name may be moved, the least first."""


@dataclass(frozen=True)
class Box:
    """A rectangle."""

    left: float
    bottom: float
    right: float
    top: float

    def overlaps(self, other: Box) -> bool:
        """Return whether the two have a point inside both."""
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.top <= other.bottom or other.top <= self.bottom)


def heights(
    starts: Sequence[tuple[float, float]], widths: Sequence[float], line: float, room: Box, taken: Sequence[Box]
) -> list[float]:
    """Return how high the middle of each name stands.

    Args:
        starts: where each name would start: its left end, the middle of its height.
        widths: of the names, in the same unit.
        line: height of a name.
        room: names stay within its bottom and top.
        taken: what names must not cover.

    Returns:
        The nearest free height of each name, the first names choosing first; that of its start if none is free.
    """
    occupied, found = list(taken), []
    for (left, middle), width in zip(starts, widths, strict=True):
        for step in _STEPS:
            height = middle + step * line / 2
            box = Box(left, height - line / 2, left + width, height + line / 2)
            inside = room.bottom <= box.bottom and box.top <= room.top
            if inside and not any(box.overlaps(other) for other in occupied):
                break
        else:
            height = middle
        occupied.append(Box(left, height - line / 2, left + width, height + line / 2))
        found.append(height)
    return found
