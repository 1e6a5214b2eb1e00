"""Pictures of a study: heat maps, curves and scatter plots of its table, and rows of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from torch import Tensor

from attacks.studies.base import Plot
from bench.experiments.study_picture.words import axis, titled, words

_INCHES = 0.8
_SMALLEST = 1e-30
"""Stands for zero on a logarithmic scale."""
_DECADES = 100
"""Ratio of the largest value to the smallest under which a logarithmic scale has labels between the powers of ten."""
_DOTS = ("o", "|", "x", "+")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
_STYLES = ("-", "--", "-.", ":")
_PANELS = 5
"""Panels of a scatter plot in a row."""
_LONG = 48
"""Lines of a key that have this many letters or more stand one below the other."""


def draw(root: Path, name: str, plot: Plot, table: pd.DataFrame) -> None:
    """Draw a study's table as its plot says: root / NAME-ATTACK.png for a map, else NAME-KIND.png.

    Args:
        root: the study's folder, with its runs, whose per_sample.csv a scatter plot shows.
        name: of the study.
        plot: what to draw.
        table: the study's table, one row a cell; cells without a value, such as runs that failed, stay empty.
    """
    if plot.kind == "map":
        for attack, part in table.groupby("attack"):
            _save(_heat_map(part, plot), root / f"{name}-{attack}.png")
        return
    of_samples = {"cdf": _distributions, "scatter": _scatter}
    of_table = {"curve": _curves, "tradeoff": _tradeoff, "bounded": _bounded, "dots": _dots}
    drawn = of_samples[plot.kind](root, table, plot) if plot.kind in of_samples else of_table[plot.kind](table, plot)
    _save(drawn, root / f"{name}-{plot.kind}.png")


def _heat_map(table: pd.DataFrame, plot: Plot) -> Figure:
    """Return a figure of one map a value, with the numbers in the cells."""
    figure = _figure(5.2 * len(plot.values), 4.4)
    for axes, value in zip(figure.subplots(1, len(plot.values), squeeze=False)[0], plot.values, strict=True):
        axes.set_title(titled(value), fontsize=9)
        if value not in table or table[value].isna().all():
            continue
        grid = table.pivot_table(index=plot.y, columns=plot.x, values=value)
        grid = grid.clip(lower=_SMALLEST) if plot.logarithmic else grid
        low, high = float(grid.min().min()), float(grid.max().max())
        scale = LogNorm(low, max(high, 1.001 * low)) if plot.logarithmic else Normalize(min(low, 0), high or 1)
        shown = grid.to_numpy()
        image = axes.imshow(shown, origin="lower", norm=scale, cmap="cividis")
        for row in range(grid.shape[0]):
            for column in range(grid.shape[1]):
                text = f"{shown[row, column]:.{'1e' if plot.logarithmic else '3g'}}"
                light = float(scale(shown[row, column])) > 0.6
                axes.text(column, row, text, ha="center", va="center", color="k" if light else "w", fontsize=7)
        axes.set_xticks(range(grid.shape[1]), [str(label) for label in grid.columns])
        axes.set_yticks(range(grid.shape[0]), [str(label) for label in grid.index])
        axes.set_xlabel(words(plot.x))
        axes.set_ylabel(words(plot.y))
        figure.colorbar(image, ax=axes)
    return figure


def _curves(table: pd.DataFrame, plot: Plot) -> Figure:
    """Return a figure of the values over one label; labels that are words stand at equal distances.

    Lines of one attack and label have a colour and a marker, values have a style; null controls are hollow.
    """
    figure = _figure(6.4, 5)
    axes = figure.subplots()
    named = table[plot.x].map(lambda label: isinstance(label, str)).any()
    lines = ["attack", *([plot.y] if plot.y else [])]
    for place, (names, part) in enumerate(table.groupby(lines, sort=False)):
        line = part if named else part.sort_values(plot.x)
        title = ", ".join([str(names[0]), *(f"{words(plot.y)} {name}" for name in names[1:])])
        for value, dashes in zip(plot.values, _STYLES, strict=False):
            if value in line:
                style: dict[str, Any] = {"marker": _MARKERS[place % len(_MARKERS)], "linestyle": dashes}
                style |= {"markerfacecolor": "none"} if value.startswith("null") else {}
                label = f"{title}: {words(value)}"
                axes.plot(line[plot.x], line[value], color=f"C{place}", markersize=5, label=label, **style)
    if plot.logarithmic and not named:
        smallest = table[plot.x][table[plot.x] > 0].min()
        axes.set_xscale("symlog", linthresh=smallest)  # a label may be 0, as the weight decay of a victim without any
    axes.set_ylim(bottom=0)
    axes.set_xlabel(words(plot.x))
    axes.set_ylabel(axis(plot.values))
    _key(figure)
    return figure


def _tradeoff(table: pd.DataFrame, plot: Plot) -> Figure:
    """Return a figure of a value over a column, a point a cell: a star the first, a marker each label, nulls crosses.

    No line joins the points, since a stronger defence may well cost less.
    """
    figure = _figure(7.2, 5.4)
    axes = figure.subplots()
    value, *nulls = plot.values
    if value in table:
        plain, rest = table.iloc[:1], table.iloc[1:]
        for place, (name, part) in enumerate(rest.groupby(plot.y, sort=False)):
            style: dict[str, Any] = {"marker": _MARKERS[place % len(_MARKERS)], "color": f"C{place}", "alpha": 0.8}
            axes.plot(part[plot.x], part[value], linestyle="none", markersize=5, label=str(name), **style)
            for null in nulls:
                axes.plot(part[plot.x], part[null], "x", markersize=4, color="0.4", alpha=0.6)
            for _, cell in part.iterrows():
                spot = (cell[plot.x], cell[value])
                axes.annotate(str(cell["strength"]), spot, (3, 3), textcoords="offset points", fontsize=6)
        axes.plot(plain[plot.x], plain[value], "k*", markersize=12, label="undefended")
        for null in nulls:
            axes.plot([], [], "x", color="0.4", markersize=4, label=words(null))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(words(plot.x))
    axes.set_ylabel(titled(value))
    axes.grid(alpha=0.3)
    _key(figure)
    return figure


def _bounded(table: pd.DataFrame, plot: Plot) -> Figure:
    """Return a figure of a share over a label with its 95% interval, a line an attack, and bounds that all share."""
    panels = list(table.groupby(plot.y, sort=False))
    figure = _figure(5 * len(panels), 4.4)
    value, *shared = plot.values
    lines = list(dict.fromkeys(zip(table["attack"], table["sees"], strict=True)))  # each has one colour in all panels
    for (title, panel), axes in zip(panels, figure.subplots(1, len(panels), squeeze=False)[0], strict=True):
        axes.set_title(str(title))
        for (attack, sees), part in panel.groupby(["attack", "sees"], sort=False):
            line = part.sort_values(plot.x)
            if value in line and line[value].notna().any():
                spread = (line[[f"{value}_low", f"{value}_high"]].to_numpy().T - line[value].to_numpy()).astype(float)
                place = lines.index((attack, sees))
                style = f"C{place}{_MARKERS[place % len(_MARKERS)]}-"
                label = f"{attack}: {sees}"
                axes.errorbar(line[plot.x], line[value], yerr=np.abs(spread), fmt=style, capsize=2, label=label)
        for name, style in zip((name for name in shared if name in panel), _STYLES, strict=False):
            line = panel.dropna(subset=[name]).drop_duplicates(plot.x).sort_values(plot.x)
            if len(line):
                axes.plot(line[plot.x], line[name], style, color="0.2", label=words(name))
        if plot.logarithmic:
            axes.set_xscale("log")
        axes.set_ylim(0, 1.02)
        axes.set_xlabel(words(plot.x))
        axes.set_ylabel(words(value))
        axes.grid(alpha=0.3)
    _key(figure)
    return figure


def _dots(table: pd.DataFrame, plot: Plot) -> Figure:
    """Return a figure with a line for each cell, the first on top, and on it a dot for each value."""
    figure = _figure(7.2, 1 + 0.24 * len(table))
    axes = figure.subplots()
    named = table[[name for name in (plot.x, plot.y) if name]].astype(object).fillna("")
    labels = [" ".join(map(str, row)).strip() for row in named.to_numpy().tolist()]
    values = [value for value in plot.values if value in table]
    for value, marker in zip(values, _DOTS, strict=False):
        axes.plot(table[value], range(len(table)), marker, label=words(value))
    axes.set_yticks(range(len(table)), labels, fontsize=7)
    axes.set_ylim(len(table) - 0.5, -0.5)
    axes.grid(axis="y", alpha=0.3)
    axes.set_xlabel(axis(plot.values))
    axes.set_ylabel(", ".join(words(name) for name in (plot.x, plot.y) if name))
    if plot.logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
        shown = table[values].to_numpy(dtype=float)
        if shown.size and np.nanmax(shown) < _DECADES * np.nanmin(shown):
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:g}")
    axes.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(plot.values), frameon=False)
    return figure


def _scatter(root: Path, table: pd.DataFrame, plot: Plot) -> Figure:
    """Return a figure of one panel a cell: each training image's SSIM over its margin."""
    figure, panels = _panels(root, table, plot)
    for axes, samples in panels:
        axes.scatter(samples["margin"], samples["ssim"], s=4)
        axes.set_xlabel("margin", fontsize=6)
        axes.set_ylabel("SSIM", fontsize=6)
    return figure


def _distributions(root: Path, table: pd.DataFrame, plot: Plot) -> Figure:
    """Return a figure of one panel a cell: the share of its records below each value."""
    figure, panels = _panels(root, table, plot)
    for axes, samples in panels:
        for value, style in zip(plot.values, _STYLES, strict=False):
            if value in samples:
                axes.ecdf(samples[value], linestyle=style, label=words(value))
        axes.set_xlabel(axis(plot.values), fontsize=6)
        axes.set_ylabel("share of records", fontsize=6)
        axes.legend(fontsize=5)
    return figure


def _panels(root: Path, table: pd.DataFrame, plot: Plot) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """Return a figure of one panel a cell that has been run, and each panel with the cell's per_sample.csv."""
    cells = [row for _, row in table.iterrows() if (root / "runs" / row["run_id"] / "per_sample.csv").exists()]
    across = min(_PANELS, max(len(cells), 1))
    down = math.ceil(max(len(cells), 1) / across)
    figure = _figure(2.4 * across, 2.2 * down)
    panels: list[Axes] = list(figure.subplots(down, across, squeeze=False, sharey=True).flat)
    for axes, cell in zip(panels, cells, strict=False):
        axes.set_title(f"{cell['victim']}: {words(plot.x)} {cell[plot.x]}", fontsize=6)
        axes.tick_params(labelsize=6)
    for axes in panels[len(cells) :]:
        axes.set_axis_off()
    return figure, [
        (axes, pd.read_csv(root / "runs" / cell["run_id"] / "per_sample.csv"))
        for axes, cell in zip(panels, cells, strict=False)
    ]


def strips(path: Path, title: str, rows: Sequence[tuple[str, Tensor]]) -> None:
    """Write a PNG of rows of images.

    Args:
        path: where to write.
        title: heading.
        rows: for each row its name and its images, (k, C, H, W) in [0, 1], as many in every row.
    """
    count = len(rows[0][1])
    figure = _figure(_INCHES * count + 0.2, _INCHES * 1.3 * len(rows) + 0.4)
    figure.suptitle(title, fontsize=9)
    grid = figure.subplots(len(rows), count, squeeze=False)
    for (name, images), line in zip(rows, grid, strict=True):
        line[0].set_title(name, fontsize=7, loc="left")
        for image, axes in zip(images, line, strict=True):
            axes.imshow(image.expand(3, -1, -1).permute(1, 2, 0).numpy(), interpolation="nearest")
            axes.set_axis_off()
    _save(figure, path)


def _key(figure: Figure) -> None:
    """Write the key of all panels below them, where it covers nothing."""
    lines: dict[str, Any] = {}
    for axes in figure.axes:
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True):
            lines.setdefault(label, line)
    if lines:
        across = 1 if max(map(len, lines)) >= _LONG and len(figure.axes) == 1 else 2
        style: dict[str, Any] = {"loc": "outside lower center", "handlelength": 3.5, "fontsize": 7, "frameon": False}
        figure.legend(lines.values(), lines.keys(), ncols=across, **style)


def _figure(width: float, height: float) -> Figure:
    """Return an empty figure of that size in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, metadata={"Software": None})
