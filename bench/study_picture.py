"""Pictures of a study: a heat map, and rows of images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from torch import Tensor

_INCHES = 0.8
_SMALLEST = 1e-30
"""Stands for zero on a logarithmic scale."""


def heat_map(path: Path, table: pd.DataFrame, rows: str, columns: str, values: Sequence[str]) -> None:
    """Write a PNG with one map a value, logarithmic, the numbers in the cells; missing values stay white.

    Args:
        path: where to write.
        table: one row a cell of the map.
        rows: column of the table that gives the map's row.
        columns: likewise the map's column.
        values: columns of the table to draw.
    """
    figure = Figure(figsize=(5.2 * len(values), 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, value in zip(figure.subplots(1, len(values), squeeze=False)[0], values, strict=True):
        if value not in table:
            continue
        grid = table.pivot_table(index=rows, columns=columns, values=value).clip(lower=_SMALLEST)
        low, high = float(grid.min().min()), float(grid.max().max())
        shown = grid.to_numpy()
        image = axes.imshow(shown, origin="lower", norm=LogNorm(low, max(high, 1.001 * low)), cmap="cividis")
        for row in range(grid.shape[0]):
            for column in range(grid.shape[1]):
                axes.text(column, row, f"{shown[row, column]:.1e}", ha="center", va="center", color="w", fontsize=7)
        axes.set_xticks(range(grid.shape[1]), [str(label) for label in grid.columns])
        axes.set_yticks(range(grid.shape[0]), [str(label) for label in grid.index])
        axes.set_xlabel(columns)
        axes.set_ylabel(rows)
        axes.set_title(value)
        figure.colorbar(image, ax=axes)
    figure.savefig(path, metadata={"Software": None})


def strips(path: Path, title: str, rows: Sequence[tuple[str, Tensor]]) -> None:
    """Write a PNG of rows of images.

    Args:
        path: where to write.
        title: heading.
        rows: for each row its name and its images, (k, C, H, W) in [0, 1], as many in every row.
    """
    count = len(rows[0][1])
    figure = Figure(figsize=(_INCHES * count + 0.2, _INCHES * 1.3 * len(rows) + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=9)
    grid = figure.subplots(len(rows), count, squeeze=False)
    for (name, images), line in zip(rows, grid, strict=True):
        line[0].set_title(name, fontsize=7, loc="left")
        for image, axes in zip(images, line, strict=True):
            axes.imshow(image.expand(3, -1, -1).permute(1, 2, 0).numpy(), interpolation="nearest")
            axes.set_axis_off()
    figure.savefig(path, metadata={"Software": None})
