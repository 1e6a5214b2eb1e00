"""The report's figures of one network: what each of them draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, PercentFormatter
from numpy.typing import NDArray

from bench.publish.numbers import duration
from bench.publish.report.figures.labels import Box, place
from bench.publish.report.figures.svg import ACCENT, INK, LINE, MUTED, svg

CLASSES = ("#3d7fd9", "#e08a2e", "#3fa66a", "#c4587f", "#8572cf", "#2fa3ad", "#a8962f", "#cf6355", "#7a8794", "#9c7148")
"""Colours of the classes, legible on light and on dark."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "<", "*")
"""Markers of the classes."""
_NAMED = 10
"""Classes that a key names one by one; of more, some share a colour and a marker."""

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "reconstruction-bench",
    "font.size": 7.5,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.minor.visible": False,
}
_PANEL = (3.3, 2.2)
THRESHOLDS = np.linspace(0, 1, 101)
"""The values of SSIM at which shares are drawn."""
_WIDTH = 7.2
_TICKS = (1e-3, 1e-2, 0.1, 1, 10, 60, 600, 3600, 36000, 86400, 864000)
"""Width in inches of the figures across the page; where the time axis has ticks, in seconds."""
_DOT, _LETTER, _LEADING, _LONGEST = 0.045, 0.058, 0.14, 40
"""Of names in a figure: half the size of a point, width of a letter and height of a line, in inches; most letters."""


@dataclass(frozen=True)
class Timed:
    """A cell in the figure of quality against time.

    Attributes:
        label: its name.
        seconds: wall time of the attack, above 0.
        good: good images, between `low` and `high`.
        null: those of the best null control, NaN if none was computed.
        control: the cell is a null control itself.
    """

    label: str
    seconds: float
    good: float
    low: float
    high: float
    null: float
    control: bool


def quality_against_time(cells: Sequence[Timed], n: int) -> str:
    """Return as SVG good images of n against wall time, a point a cell, its interval a bar, its null control a dash."""
    if not cells:
        return ""
    with mpl.rc_context(STYLE):
        height = 2.5 if len(cells) < 10 else 3.5
        figure = Figure(figsize=(_WIDTH, height))
        axes = figure.add_axes((0.07, 0.42 / height, 0.79, 1 - 0.55 / height))
        axes.set_xscale("log")
        for cell in cells:
            colour = MUTED if cell.control else ACCENT
            axes.plot([cell.seconds] * 2, [cell.low, cell.high], color=colour, linewidth=1.4, alpha=0.55)
            axes.plot(cell.seconds, cell.good, "o", color=colour, markersize=4.5)
            axes.plot(cell.seconds, cell.null, "_", color=MUTED, markersize=8)
        top = np.nanmax([(cell.high, cell.good, cell.null) for cell in cells])
        axes.set_ylim(0, min(n, max(top * 1.12, 1)) if top < n else n * 1.02)
        shortest, longest = min(cell.seconds for cell in cells), max(cell.seconds for cell in cells)
        axes.set_xlim(shortest / 1.6, longest * 1.6)
        ticks = [tick for tick in _TICKS if shortest / 1.6 <= tick <= longest * 1.6]
        axes.set_xticks(ticks if len(ticks) > 1 else sorted({shortest, longest}))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: duration(seconds)))
        axes.minorticks_off()
        axes.set_xlabel("wall time of the attack")
        axes.set_ylabel(f"good images of {n}")
        _grid(axes)
        _name(axes, cells)
        return svg(figure)


def share_against_threshold(
    ssim: NDArray[np.float64], held_out: NDArray[np.float64], at_1pct: float, threshold: float
) -> str:
    """Return as SVG the share of training and of held-out images whose reconstruction passes each SSIM.

    Args:
        ssim: (n,) of the training images.
        held_out: (p,) of the held-out images, p may be 0.
        at_1pct: the SSIM that 1% of the held-out images pass, NaN if unknown.
        threshold: the SSIM of a good image, NaN if that is judged by something else.
    """
    if not np.isfinite(ssim).any():
        return ""
    with mpl.rc_context(STYLE):
        figure, axes = _panel("SSIM threshold", "share that passes")
        if not math.isnan(threshold):
            axes.axvline(threshold, color=LINE, linewidth=0.8, linestyle=(0, (3, 2)))
        if len(held_out):
            axes.plot(THRESHOLDS, passing(held_out), color=MUTED, linewidth=1.2, linestyle=(0, (4, 2)))
        axes.plot(THRESHOLDS, passing(ssim), color=ACCENT, linewidth=1.6)
        if not math.isnan(at_1pct):
            axes.plot(at_1pct, np.mean(ssim > at_1pct), "o", color=ACCENT, markersize=4.5, clip_on=False)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        return svg(figure)


def ssim_against_output(per_sample: pd.DataFrame, n_classes: int) -> str:
    """Return as SVG the SSIM of each image against the model's output, or the margin if it has more classes than two.

    A class has a colour and a marker; the key above names those of ten classes or fewer. Lines stand at the least
    margin: images on it are those that the KKT conditions weigh.

    Source:
        Haim et al. 2022, Fig. 16; Buzaglo et al. 2023, Fig. 3.
    """
    name = "output" if n_classes == 2 else "margin"
    if not {name, "margin", "label", "ssim"} <= set(per_sample):
        return ""
    table = per_sample[np.isfinite(per_sample[[name, "ssim"]]).all(axis=1)]
    if table.empty:
        return ""
    with mpl.rc_context(STYLE):
        figure, axes = _panel("model's output" if n_classes == 2 else "margin", "SSIM")
        size = np.clip(4000 / len(table), 7, 24)
        for label in sorted(set(table["label"].astype(int))):
            part, kind = table[table["label"] == label], label % len(CLASSES)
            style: dict[str, Any] = {"c": CLASSES[kind], "marker": _MARKERS[kind], "label": str(label)}
            axes.scatter(part[name], part["ssim"], s=size, alpha=0.65, linewidths=0, rasterized=True, **style)
        _name_classes(figure, axes, n_classes)
        margin = float(table["margin"].min())
        for place in (margin, -margin) if n_classes == 2 else (margin,):
            axes.axvline(place, color=MUTED, linewidth=0.8, linestyle=(0, (3, 2)))
        axes.set_ylim(min(0.0, float(table["ssim"].min())), 1)
        return svg(figure)


def precision_recall(confidence: pd.DataFrame, base_rate: float) -> str:
    """Return as SVG precision against recall of the attack's own ranking of its candidates.

    Args:
        confidence: `precision` and `recall` down the ranking.
        base_rate: the share of hits, a random order's mean precision at any place; NaN if unknown.
    """
    if not {"precision", "recall"} <= set(confidence) or not confidence["recall"].gt(0).any():
        return ""
    kept = confidence.iloc[np.unique(np.linspace(0, len(confidence) - 1, 200).astype(int))]
    with mpl.rc_context(STYLE):
        figure, axes = _panel("recall", "precision")
        if not math.isnan(base_rate):
            axes.axhline(base_rate, color=MUTED, linewidth=1, linestyle=(0, (4, 2)))
        axes.plot(kept["recall"], kept["precision"], color=ACCENT, linewidth=1.6, solid_joinstyle="round")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        return svg(figure)


def passing(ssim: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of images above each of `THRESHOLDS`."""
    return np.asarray((ssim[:, None] > THRESHOLDS).mean(axis=0))


def _panel(x: str, y: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=_PANEL)
    axes = figure.add_axes((0.16, 0.18, 0.81, 0.77))
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    _grid(axes)
    return figure, axes


def _name_classes(figure: Figure, axes: Axes, n_classes: int) -> None:
    """Write the key of the classes above a panel, which gives it room."""
    if n_classes > _NAMED:
        return
    places = axes.get_position()
    axes.set_position((places.x0, places.y0, places.width, places.height - 0.09))
    style: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.02, 1), "ncols": n_classes + 1, "frameon": False}
    style |= {"handlelength": 1, "handletextpad": 0.2, "columnspacing": 0.6, "markerscale": 1.2}
    marks, names = axes.get_legend_handles_labels()
    blank = Line2D([], [], linestyle="none")
    figure.legend([blank, *marks], ["class", *names], **style)


def _grid(axes: Axes) -> None:
    axes.grid(color=LINE, linewidth=0.5, alpha=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)  # the lines of the grid stand there


def _name(axes: Axes, cells: Sequence[Timed]) -> None:
    """Write each cell's name beside its point, with a line from it to one that had to give way."""
    ordered = sorted(cells, key=lambda cell: -cell.good)
    points = [_inches(axes, cell.seconds, cell.good) for cell in ordered]
    bars = []
    for cell, (x, y) in zip(ordered, points, strict=True):
        low, high = (_inches(axes, cell.seconds, end)[1] for end in (cell.low, cell.high))
        bars.append(Box(x - _DOT, min(low, y - _DOT), x + _DOT, max(high, y + _DOT)))
    names = [cell.label if len(cell.label) <= _LONGEST else f"{cell.label[: _LONGEST - 1]}…" for cell in ordered]
    inside = axes.bbox.transformed(axes.figure.dpi_scale_trans.inverted())
    room = Box(inside.x0, inside.y0, _WIDTH, inside.y1)
    boxes = place(points, [_LETTER * len(name) for name in names], _LEADING, 2.5 * _DOT, room, bars)
    inches = axes.figure.dpi_scale_trans
    for cell, name, (x, y), box in zip(ordered, names, points, boxes, strict=True):
        height, on_the_left = (box.bottom + box.top) / 2, box.right < x
        edge = box.right if on_the_left else box.left
        colour, side = MUTED if cell.control else INK, "right" if on_the_left else "left"
        axes.text(edge, height, name, transform=inches, color=colour, va="center_baseline", ha=side, parse_math=False)
        if abs(height - y) > _LEADING / 2:
            axes.plot([x, edge], [y, height], color=LINE, linewidth=0.7, transform=inches, zorder=0)


def _inches(axes: Axes, x: float, y: float) -> tuple[float, float]:
    """Return where a point of the data stands on the figure, in inches."""
    across, up = axes.figure.dpi_scale_trans.inverted().transform(axes.transData.transform((x, y)))
    return float(across), float(up)
