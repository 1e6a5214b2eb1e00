"""Pictures of a study's table: heat maps, curves, dots, and costs against gains."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from attacks.studies.base import Plot
from bench.experiments.study_picture.samples import distributions, drawable, scatter
from bench.experiments.study_picture.style import (
    MARKERS,
    STYLES,
    colour,
    figure_of,
    from_zero,
    key,
    logarithmic,
    size,
)
from bench.experiments.study_picture.words import axis, level, titled, words
from bench.store.picture import save_png

_SMALLEST = 1e-30
"""Stands for zero on a logarithmic scale."""
_DOTS = ("o", "|", "x", "+")
_MAPS = 2
"""Heat maps in a row."""
_SIDES = tuple((align, right, up) for up in (3, -8, 13, -18, 23, -28) for align, right in (("left", 4), ("right", -4)))
"""Where a label may stand beside its point: its alignment, and its offset in points."""
_FAR = 8
"""A label that stands further above or below its point than this, in points, is joined to it by a line."""
_LABEL, _AXES = (44, 9), (470, 300)
"""Room that a label takes, and the size of the axes, in points."""


def draw(root: Path, name: str, plot: Plot, table: pd.DataFrame) -> None:
    """Draw a study's table as its plot says: root / NAME-ATTACK.png for a map, else NAME-KIND.png.

    A picture of samples that are no longer there stays as it is.

    Args:
        root: the study's folder, with its runs, whose per_sample.csv a scatter plot shows.
        name: of the study.
        plot: what to draw.
        table: the study's table, one row a cell; cells without a value, such as runs that failed, stay empty.
    """
    table = _with_shares(table, plot.values)
    if plot.kind == "map":
        for attack, part in table.groupby("attack"):
            save_png(_heat_map(part, plot), root / f"{name}-{attack}.png")
        return
    path = root / f"{name}-{plot.kind}.png"
    of_samples = {"cdf": distributions, "scatter": scatter}
    of_table = {"curve": _curves, "tradeoff": _tradeoff, "bounded": _bounded, "dots": _dots}
    if plot.kind in of_table:
        save_png(of_table[plot.kind](table, plot), path)
    elif drawable(root, table, path):
        save_png(of_samples[plot.kind](root, table, plot), path)


def _with_shares(table: pd.DataFrame, values: Sequence[str]) -> pd.DataFrame:
    """Return the table with the shares of the training images that are asked for, where it has their counts alone."""
    counts = {name: name.replace("share_", "n_", 1) for name in values if "share_" in name and name not in table}
    return table.assign(**{name: table[n] / table["n"] for name, n in counts.items() if {n, "n"} <= {*table.columns}})


def _heat_map(table: pd.DataFrame, plot: Plot) -> Figure:
    """Return a figure of one map a value, with the numbers in the cells; a null has the colours of its count."""
    values = [value for value in plot.values if value in table and table[value].notna().any()]
    down, across = math.ceil(max(len(values), 1) / _MAPS), min(_MAPS, max(len(values), 1))
    figure = figure_of(5.2 * across, 4.4 * down)
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for axes, value in zip(panels, values, strict=False):
        axes.set_title(titled(value, table), fontsize=9)
        grid = table.pivot_table(index=plot.y, columns=plot.x, values=value)
        grid = grid.clip(lower=_SMALLEST) if plot.logarithmic else grid
        alike = [other for other in values if other.removeprefix("null_") == value.removeprefix("null_")]
        low, high = float(table[alike].min().min()), float(table[alike].max().max())
        low = max(low, _SMALLEST) if plot.logarithmic else low
        scale = LogNorm(low, max(high, 1.001 * low)) if plot.logarithmic else Normalize(min(low, 0), high or 1)
        shown = grid.to_numpy()
        image = axes.imshow(shown, origin="lower", norm=scale, cmap="cividis")
        for row in range(grid.shape[0]):
            for column in range(grid.shape[1]):
                text = f"{shown[row, column]:.{'1e' if plot.logarithmic else '3g'}}"
                light = float(scale(shown[row, column])) > 0.6
                axes.text(column, row, text, ha="center", va="center", color="k" if light else "w", fontsize=8)
        axes.set_xticks(range(grid.shape[1]), [level(label) for label in grid.columns])
        axes.set_yticks(range(grid.shape[0]), [level(label) for label in grid.index])
        axes.set_xlabel(words(plot.x))
        axes.set_ylabel(words(plot.y))
        figure.colorbar(image, ax=axes)
    for axes in panels[len(values) :]:
        axes.set_axis_off()
    return figure


def _curves(table: pd.DataFrame, plot: Plot) -> Figure:
    """Return a figure of the values over one label; labels that are words stand at equal distances.

    Lines of one attack and label have a colour and a marker, values have a style; null controls are hollow. Markers
    of a line are smaller than those of the one before, so that lines of the same values are all seen.
    """
    figure = figure_of(6.4, 5)
    axes = figure.subplots()
    named = table[plot.x].map(lambda label: isinstance(label, str)).any()
    lines = list(table.groupby(["attack", *([plot.y] if plot.y else [])], sort=False))
    for place, (names, part) in enumerate(lines):
        line = part if named else part.sort_values(plot.x)
        title = ", ".join([str(names[0]), *(f"{words(plot.y)} = {level(name)}" for name in names[1:])])
        for value, dashes in zip(plot.values, STYLES, strict=False):
            if value in line and line[value].notna().any():
                style: dict[str, Any] = {"marker": MARKERS[place % len(MARKERS)], "linestyle": dashes}
                style |= {"markerfacecolor": "none"} if value.startswith("null") else {}
                style |= {"color": colour(place), "markersize": size(place, len(lines))}
                axes.plot(line[plot.x], line[value], label=f"{title}: {words(value)}", **style)
    if plot.logarithmic and not named:
        logarithmic(axes, table[plot.x])
    from_zero(axes)
    axes.set_xlabel(words(plot.x))
    axes.set_ylabel(axis(plot.values, table))
    axes.grid(alpha=0.3)
    figure.set_figheight(4.2 + 0.16 * key(figure))
    return figure


def _tradeoff(table: pd.DataFrame, plot: Plot) -> Figure:
    """Return a figure of a value over a column, a point a cell: a star the first, a marker each label, nulls crosses.

    No line joins the points, since a stronger defence may well cost less.
    """
    figure = figure_of(7.2, 5.4)
    axes = figure.subplots()
    value, *nulls = plot.values
    if value in table:
        plain, rest = table.iloc[:1], table.iloc[1:]
        places = {name: place for place, name in enumerate(rest[plot.y].unique())}
        for name, place in places.items():
            part = rest[rest[plot.y] == name]
            style: dict[str, Any] = {"marker": MARKERS[place % len(MARKERS)], "color": colour(place), "alpha": 0.8}
            axes.plot(part[plot.x], part[value], linestyle="none", markersize=5, label=str(name), **style)
            for null in nulls:
                axes.plot(part[plot.x], part[null], "x", markersize=5, color="0.3")
        star: dict[str, Any] = {"markersize": 15, "markerfacecolor": "none", "markeredgecolor": "k"}
        axes.plot(plain[plot.x], plain[value], "*", label="undefended", **star)
        for null in nulls:
            axes.plot([], [], "x", color="0.3", markersize=5, label=words(null))
        told = rest.dropna(subset=[plot.x, value])
        spots = told[[plot.x, value]].to_numpy(float)
        names = zip(told[plot.y], told["strength"], strict=True)
        for (x, y), (name, text), (align, right, up) in zip(spots, names, _sides(spots), strict=True):
            line = {"arrowstyle": "-", "linewidth": 0.6, "color": colour(places[name])} if abs(up) > _FAR else None
            where: dict[str, Any] = {"ha": align, "fontsize": 7, "color": "0.15", "arrowprops": line}
            axes.annotate(str(text), (x, y), (right, up), textcoords="offset points", **where)
    from_zero(axes)
    axes.set_xlabel(words(plot.x))
    axes.set_ylabel(titled(value, table))
    axes.grid(alpha=0.3)
    key(figure)
    return figure


def _sides(spots: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Iterator[tuple[str, int, int]]:
    """Yield for each point the first side where its label covers no other label, the first one if there is none.

    Args:
        spots: (k, 2), the points in the units of their axes, of which the second begins at 0.
    """
    spread = np.array([np.ptp(spots[:, 0]), spots[:, 1].max()]) if len(spots) else np.ones(2)
    taken: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = []
    for spot in spots / np.where(spread > 0, spread, 1) * _AXES:
        centres = [spot + np.array([np.sign(right) * (_LABEL[0] / 2 + 4), up]) for _, right, up in _SIDES]
        free = [all((np.abs(centre - other) >= _LABEL).any() for other in taken) for centre in centres]
        side = free.index(True) if any(free) else 0
        taken.append(centres[side])
        yield _SIDES[side]


def _bounded(table: pd.DataFrame, plot: Plot) -> Figure:
    """Return a figure of a share over a label with its 95% interval, a line an attack, and bounds that all share."""
    panels = list(table.groupby(plot.y, sort=False))
    figure = figure_of(5 * len(panels), 4.4)
    value, *shared = plot.values
    lines = list(dict.fromkeys(zip(table["attack"], table["sees"], strict=True)))  # each has one colour in all panels
    for (title, panel), axes in zip(panels, figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
        axes.set_title(str(title))
        for (attack, sees), part in panel.groupby(["attack", "sees"], sort=False):
            line = part.sort_values(plot.x)
            if value in line and line[value].notna().any():
                spread = (line[[f"{value}_low", f"{value}_high"]].to_numpy().T - line[value].to_numpy()).astype(float)
                place = lines.index((attack, sees))
                style: dict[str, Any] = {"color": colour(place), "fmt": f"{MARKERS[place % len(MARKERS)]}-"}
                style |= {"capsize": 2, "markersize": size(place, len(lines))}
                axes.errorbar(line[plot.x], line[value], np.abs(spread), label=f"{attack}: {sees}", **style)
        for name, dashes in zip((name for name in shared if name in panel), STYLES, strict=False):
            line = panel.dropna(subset=[name]).drop_duplicates(plot.x).sort_values(plot.x)
            if len(line):
                axes.plot(line[plot.x], line[name], dashes, color="0.2", label=words(name))
        if plot.logarithmic:
            logarithmic(axes, panel[plot.x])
        axes.set_ylim(0, 1.02)
        axes.set_xlabel(words(plot.x))
        axes.set_ylabel(words(value))
        axes.grid(alpha=0.3)
    key(figure)
    return figure


def _dots(table: pd.DataFrame, plot: Plot) -> Figure:
    """Return a figure with a line for each cell, the first on top, and on it a dot for each value."""
    figure = figure_of(7.2, 1 + 0.24 * len(table))
    axes = figure.subplots()
    named = table[[name for name in (plot.x, plot.y) if name]].astype(object).fillna("")
    labels = [": ".join(filter(None, map(level, row))) for row in named.to_numpy().tolist()]
    values = [value for value in plot.values if value in table]
    for place, (value, marker) in enumerate(zip(values, _DOTS, strict=False)):
        style: dict[str, Any] = {"color": colour(place), "linestyle": "none", "markersize": 6 + 3 * (marker == "|")}
        axes.plot(table[value], range(len(table)), marker=marker, markeredgewidth=1.6, label=words(value), **style)
    axes.set_yticks(range(len(table)), labels, fontsize=7)
    axes.set_ylim(len(table) - 0.5, -0.5)
    axes.grid(axis="y", alpha=0.3)
    axes.set_xlabel(axis(plot.values, table))
    axes.set_ylabel(", ".join(words(name) for name in (plot.x, plot.y) if name))
    if plot.logarithmic:
        logarithmic(axes, table[values])
    if len(values) > 1:
        key(figure, "upper")
    return figure
