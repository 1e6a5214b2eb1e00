"""Counts what makes the host wait for the pretend device, and who asks for it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import ClassVar, TypeVar

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DEVICE = {str(HERE / "accelerator.py"), __file__}
"""The files that ask for nothing themselves."""
WITHIN = {"<dictcomp>", "<genexpr>", "<listcomp>", "<setcomp>"}
"""Names of what counts as the function that it stands in."""


class Waits:
    """Counts, while it is entered, what makes the host wait for the device.

    Attributes:
        count: how often, by operation and by the function of this repository that asked for it, such as
            ("_local_scalar_dense", "attacks/implicit/lower.py:evaluate"). An upload is `upload`, a copy to the host
            `download`.
    """

    _entered: ClassVar[list[Waits]] = []

    def __init__(self) -> None:
        self.count: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> Waits:
        self._entered.append(self)
        return self

    def __exit__(self, *raised: object) -> None:
        self._entered.remove(self)

    @property
    def by_place(self) -> Counter[str]:
        """The count, by function."""
        places: Counter[str] = Counter()
        for (_, place), count in self.count.items():
            places[place] += count
        return places

    @classmethod
    def note(cls, operation: str) -> None:
        """Count a wait."""
        if cls._entered:
            place = _place()
            for waits in cls._entered:
                waits.count[operation, place] += 1


Result = TypeVar("Result")


def growth(of: Callable[[int], Result], steps: int) -> tuple[Result, frozenset[str]]:
    """Return a result, and the functions in which the host waits more often if twice the steps are taken.

    Args:
        of: what takes so many steps on the device.
        steps: how many to begin with.
    """
    results, counts = [], []
    for taken in (steps, 2 * steps):
        with Waits() as waits:
            results.append(of(taken))
        counts.append(waits.by_place)
    return results[0], frozenset(counts[1] - counts[0])


def _place() -> str:
    """Return the innermost function of this repository on the stack: its file and name."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        name = frame.f_code.co_name
        if name not in WITHIN and (file := _asking(frame.f_code.co_filename)):
            return f"{file}:{name}"
        frame = frame.f_back
    return "elsewhere"


@cache
def _asking(file: str) -> str:
    """Return the path of a file from the root of this repository; empty for one that asks for nothing itself."""
    if file in DEVICE or "site-packages" in file or not Path(file).is_relative_to(ROOT):
        return ""
    return Path(file).relative_to(ROOT).as_posix()
