"""Where names stand beside points, so that none covers another or a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

_STEPS = sorted(range(-60, 61), key=abs)
"""How many half lines a name may be moved up, the least first."""


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

    def holds(self, other: Box) -> bool:
        """Return whether the other lies within this one."""
        across = self.left <= other.left and other.right <= self.right
        return across and self.bottom <= other.bottom and other.top <= self.top


def place(
    points: Sequence[tuple[float, float]],
    widths: Sequence[float],
    line: float,
    gap: float,
    room: Box,
    taken: Sequence[Box],
) -> list[Box]:
    """Return where the name of each point stands.

    Args:
        points: (x, y).
        widths: of the names, in the same unit.
        line: height of a name.
        gap: between a point and its name.
        room: where names may stand.
        taken: what they must not cover.

    Returns:
        The nearest free place to the right or the left of each point, the first names choosing first; right beside the
        point if none is free.
    """
    occupied, found = list(taken), []
    for (x, y), width in zip(points, widths, strict=True):
        lefts = (x + gap, x - gap - width)
        tried = (
            Box(left, y + (step - 1) * line / 2, left + width, y + (step + 1) * line / 2)
            for step, left in product(_STEPS, lefts)
        )
        free = (box for box in tried if room.holds(box) and not any(box.overlaps(other) for other in occupied))
        box = next(free, Box(x + gap, y - line / 2, x + gap + width, y + line / 2))
        occupied.append(box)
        found.append(box)
    return found
