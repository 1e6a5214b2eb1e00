"""The report's figure of all kinds of networks: what the attacks on each gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator, PercentFormatter

from bench.publish.report.figures.drawn import STYLE
from bench.publish.report.figures.svg import ACCENT, INK, LINE, MUTED, PAGE, svg

_WIDTH, _ROW, _FOOT = 3.5, 0.42, 0.45
"""In inches: of the figure, whose letters a phone can show, the height of a kind of network, and that of the axis."""
_LETTERS = 60
"""Letters that a line holds."""
_FIRST, _SECOND, _DOTS = 0.0, 0.32, 0.62
"""Heights of a kind's two lines of words and of its dots, from 0 at its top to 1 at its bottom."""
_REACH = 0.13
"""How far the lines of the scale reach above and below the dots, so that none runs through a word."""


@dataclass(frozen=True)
class Gained:
    """An attack's best row on a kind of network, as shares of the training images.

    Attributes:
        name: the attack.
        gain: over the strictest null control; its 95% interval goes from `low` to `high`.
        ranked: the row has a rank: the interval lies above 0.
        network: that the row is of.
        trainings: of the network, on which the attack was made.
    """

    name: str
    gain: float
    low: float
    high: float
    ranked: bool
    network: str
    trainings: int


def gains(kinds: Mapping[str, Sequence[Gained]]) -> str:
    """Return as SVG the gain of each attack's best row on each kind of network, a point with its interval.

    A point of one training is hollow. Above the points stand the kind, and the best attack with its point's network.

    Args:
        kinds: of each kind of network the attacks on it, best first, the kinds from top to bottom.
    """
    if not kinds:
        return ""
    with mpl.rc_context(STYLE):
        height = _ROW * len(kinds) + _FOOT
        figure = Figure(figsize=(_WIDTH, height))
        axes = figure.add_axes((0.03, _FOOT / height, 0.94, 1 - _FOOT / height))
        low = min(-0.05, *(one.low for found in kinds.values() for one in found))
        axes.set_xlim(low, 1.02)
        axes.xaxis.set_major_locator(MultipleLocator(0.5))
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.set_ylim(len(kinds) - 0.1, -0.2)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("share of the records gained over the strictest null control")
        for place, (kind, found) in enumerate(kinds.items()):
            _row(axes, place, kind, found)
        return svg(figure)


def _row(axes: Axes, place: int, kind: str, found: Sequence[Gained]) -> None:
    """Draw a kind of network: its two lines of words, and below them the points."""
    best, at = found[0], place + _DOTS
    words = f"{best.name} on {best.network}" if best.ranked else "none surely beats chance"
    style: dict[str, Any] = {"va": "center_baseline", "parse_math": False, "transform": axes.get_yaxis_transform()}
    axes.text(0, place + _FIRST, _shortened(kind), color=INK, **style)
    axes.text(0, place + _SECOND, _shortened(words), color=ACCENT if best.ranked else MUTED, **style)
    for tick in (-0.5, 0, 0.5, 1):
        if tick >= axes.get_xlim()[0]:
            colour = LINE if tick else MUTED
            axes.plot([tick] * 2, [at - _REACH, at + _REACH], color=colour, linewidth=0.8, zorder=1)
    for one in reversed(found):
        colour = ACCENT if one is best and one.ranked else MUTED
        alpha, size = (1.0, 4.5) if one is best else (0.45, 3)
        axes.plot([one.low, one.high], [at] * 2, color=colour, linewidth=1.4, alpha=alpha)
        filled = PAGE if one.trainings == 1 else colour
        axes.plot(one.gain, at, "o", color=colour, markerfacecolor=filled, markersize=size, alpha=alpha)


def _shortened(text: str) -> str:
    """Return a text, cut at the end if it is too long for a line."""
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
