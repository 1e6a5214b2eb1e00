"""Pictures of what became of each training image: scatter plots and distributions of per_sample.csv, rows of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from attacks.studies.base import Plot
from bench.experiments.study_picture.style import STYLES, colour, figure_of, key
from bench.experiments.study_picture.words import axis, level, words
from bench.store.file_names import PER_SAMPLE, RUNS
from bench.store.picture import save_png
from bench.store.records import Status

_INCHES = 0.8
_PANELS = 5
"""Panels in a row."""


def drawable(root: Path, table: pd.DataFrame, path: Path) -> bool:
    """Whether a picture of samples is to be drawn: some cell has its per_sample.csv, and no panel would be lost.

    Run folders are not in git, so that a table may be there without them; a picture in `path` then shows what nobody
    can draw again.
    """
    ended = table if "status" not in table else table[table["status"] == Status.OK]
    there = [_samples(root, run_id).exists() for run_id in ended["run_id"]]
    return all(there) if path.exists() and there else any(there)


def scatter(root: Path, table: pd.DataFrame, plot: Plot) -> Figure:
    """Return a figure of one panel a cell: each training image's SSIM over its margin."""
    figure, panels = _panels(root, table, plot)
    for axes, samples in panels:
        axes.scatter(samples["margin"], samples["ssim"], s=4, color=colour(0))
        axes.set_xlabel("margin of the training image", fontsize=6)
        axes.set_ylabel("SSIM of its reconstruction", fontsize=6)
    return figure


def distributions(root: Path, table: pd.DataFrame, plot: Plot) -> Figure:
    """Return a figure of one panel a cell: the share of its records below each value."""
    figure, panels = _panels(root, table, plot)
    for axes, samples in panels:
        for place, (value, style) in enumerate(zip(plot.values, STYLES, strict=False)):
            if value in samples:
                axes.ecdf(samples[value], linestyle=style, color=colour(place), label=words(value))
        axes.set_xlabel(axis(plot.values), fontsize=6)
        axes.set_ylabel("share of the records", fontsize=6)
    key(figure)
    return figure


def _panels(root: Path, table: pd.DataFrame, plot: Plot) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """Return a figure of one panel a cell that has been run, and each panel with the cell's per_sample.csv."""
    cells = [row for _, row in table.iterrows() if _samples(root, row["run_id"]).exists()]
    across = min(_PANELS, max(len(cells), 1))
    down = math.ceil(max(len(cells), 1) / across)
    figure = figure_of(2.4 * across, 2.2 * down)
    panels: list[Axes] = list(figure.subplots(down, across, squeeze=False, sharey=True).flat)
    for axes, cell in zip(panels, cells, strict=False):
        axes.set_title(f"{cell['victim']}: {words(plot.x)} {level(cell[plot.x])}", fontsize=6)
        axes.tick_params(labelsize=6)
    for axes in panels[len(cells) :]:
        axes.set_axis_off()
    drawn = zip(panels, cells, strict=False)
    return figure, [(axes, pd.read_csv(_samples(root, cell["run_id"]))) for axes, cell in drawn]


def _samples(root: Path, run_id: object) -> Path:
    return root / RUNS / str(run_id) / PER_SAMPLE


def strips(path: Path, title: str, rows: Sequence[tuple[str, Tensor]]) -> None:
    """Write a PNG of rows of images.

    Args:
        path: where to write.
        title: heading.
        rows: for each row its name and its images, (k, C, H, W) in [0, 1], as many in every row.
    """
    count = len(rows[0][1])
    figure = figure_of(_INCHES * count + 0.2, _INCHES * 1.3 * len(rows) + 0.4)
    figure.suptitle(title, fontsize=9)
    grid = figure.subplots(len(rows), count, squeeze=False)
    for (name, images), line in zip(rows, grid, strict=True):
        line[0].set_title(name, fontsize=7, loc="left")
        for image, axes in zip(images, line, strict=True):
            axes.imshow(image.expand(3, -1, -1).permute(1, 2, 0).numpy(), interpolation="nearest")
            axes.set_axis_off()
    save_png(figure, path)
