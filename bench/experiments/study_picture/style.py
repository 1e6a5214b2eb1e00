"""What the pictures of studies look like: sizes, colours, markers, keys, and the ticks of logarithmic axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import ArrayLike

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Of Okabe and Ito, which readers with any colour vision tell apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
STYLES = ("-", "--", "-.", ":")
_LONG = 48
"""Lines of a key that have this many letters or more stand one below the other."""
_DECADES = 100
"""Ratio of the largest value to the smallest under which a logarithmic scale has labels between the powers of ten."""


def colour(place: int) -> str:
    """Return the colour of the line that has this place among the lines."""
    return COLOURS[place % len(COLOURS)]


def size(place: int, count: int) -> float:
    """Return the size of the markers of one of `count` lines: of lines with the same values all are to be seen."""
    return 5 + 4 * (count - 1 - place) / max(count - 1, 1)


def figure_of(width: float, height: float) -> Figure:
    """Return an empty figure of that size in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def key(figure: Figure, where: str = "lower") -> int:
    """Write the key of all panels outside of them, where it covers nothing, and return how many lines high it is.

    Args:
        figure: with its panels drawn.
        where: "lower", or "upper" for a picture that is so long that a reader begins with its top.
    """
    lines: dict[str, Any] = {}
    for axes in figure.axes:
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True):
            lines.setdefault(label, line)
    if not lines:
        return 0
    across = 1 if max(map(len, lines)) >= _LONG and len(figure.axes) == 1 else 2
    style: dict[str, Any] = {"loc": f"outside {where} center", "handlelength": 5, "fontsize": 7, "frameon": False}
    figure.legend(lines.values(), lines.keys(), ncols=across, **style)
    return math.ceil(len(lines) / across)


def from_zero(axes: Axes) -> None:
    """Let y begin a little below 0, so that the markers of a count of 0 are seen whole."""
    axes.set_ylim(bottom=-0.025 * axes.get_ylim()[1])


def logarithmic(axes: Axes, shown: ArrayLike) -> None:
    """Make the scale of x logarithmic, with plain numbers between the powers of ten where the values span few of these.

    Args:
        axes: whose scale.
        shown: the values of x; if the smallest is 0, as a weight decay may be, the scale is linear next to it.
    """
    values = np.asarray(shown, dtype=float)
    values = values[np.isfinite(values)]
    if values.size and values.min() == 0 and (values > 0).any():
        axes.set_xscale("symlog", linthresh=values[values > 0].min())
        return
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    if values.size and values.max() < _DECADES * values.min():
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
