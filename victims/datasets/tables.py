"""Rows of a table in the place of images, and the units of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from victims.datasets.raw import RawDataset
from victims.errors import UserError

PLAUSIBLE = 4.0
"""A column of which no rows are given is taken to lie within this many standard deviations of its mean."""


@dataclass(frozen=True)
class Units:
    """What the numbers of a table's rows mean; each column fills [0, 1] as the pixels of an image do.

    Attributes:
        columns: names of the d columns, in the order of the model's inputs.
        low: (d,) float64, what 0 stands for.
        span: (d,) float64, above 0: what 1 stands for, less `low`.
    """

    columns: tuple[str, ...]
    low: np.ndarray
    span: np.ndarray

    @classmethod
    def of_rows(cls, columns: Sequence[str], rows: np.ndarray) -> Units:
        """Return the units in which the least of a column's values is 0 and the largest 1; rows are (n, d)."""
        span = np.ptp(rows, axis=0)
        return cls(tuple(columns), rows.min(0), np.where(span > 0, span, 1.0))

    @classmethod
    def of_scale(cls, columns: Sequence[str], mean: Sequence[float], std: Sequence[float]) -> Units:
        """Return the units of a table of which no rows are given, from the mean and std (d,) of its columns."""
        half = PLAUSIBLE * np.array(std, np.float64)
        return cls(tuple(columns), np.array(mean, np.float64) - half, 2 * half)

    def scaled(self, rows: np.ndarray) -> np.ndarray:
        """Return rows (n, d) as (n, 1, 1, d) float32 in [0, 1]."""
        scaled: np.ndarray = ((rows - self.low) / self.span).astype(np.float32)
        return scaled[:, np.newaxis, np.newaxis]

    def rows(self, images: np.ndarray) -> np.ndarray:
        """Return the rows (n, d) float64 that images (n, 1, 1, d) in [0, 1] stand for."""
        rows: np.ndarray = images.reshape(len(images), -1).astype(np.float64) * self.span + self.low
        return rows


def load_table(
    path: Path, label: str, columns: Sequence[str] = (), held_out: Path | None = None
) -> tuple[RawDataset, Units]:
    """Load the rows of a CSV file as a dataset, and their units.

    Args:
        path: a CSV file whose first line names its columns: the rows that a model was trained on.
        label: the column of their classes, whole numbers from 0.
        columns: what the model is given, in that order; empty for all other columns, in the file's order.
        held_out: rows that it was not trained on, with the same columns; None for none.

    Raises:
        UserError: a file is missing or no table, a column is missing, a value is no number, or labels are no classes.
    """
    table = _read(path)
    names = tuple(columns) or tuple(name for name in table.columns if name != label)
    if not names:
        raise UserError(f"{path} has no column but {label!r}; expected what the model is given, a number a column")
    rows, labels = _numbers(table, names, path), _labels(table, label, path)
    if np.ptp(labels) == 0:
        raise UserError(f"{path}: all {label} are {labels[0]}; expected at least two classes")
    if len(rows) > 1 and (rows == rows[0]).all():
        raise UserError(f"{path}: all rows are the same; expected rows that differ")
    other_rows, other_labels = rows[:0], labels[:0]
    if held_out is not None:
        others = _read(held_out)
        other_rows, other_labels = _numbers(others, names, held_out), _labels(others, label, held_out)
    units = Units.of_rows(names, np.concatenate([rows, other_rows]))
    return RawDataset(path.stem, units.scaled(rows), labels, units.scaled(other_rows), other_labels), units


def _read(path: Path) -> pd.DataFrame:
    try:
        table = pd.read_csv(path, skipinitialspace=True)
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors, and so is a wrong encoding
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise UserError(f"{path} cannot be read as a CSV table with a line of column names ({reason})") from None
    if table.empty:
        raise UserError(f"{path} has no rows; expected a line of column names, then a record a line")
    return table


def _numbers(table: pd.DataFrame, names: Sequence[str], path: Path) -> np.ndarray:
    """Return the columns (n, d) float64; UserError, which names the first that is none of numbers."""
    _require_columns(table, names, path)
    for name in names:
        column = table[name]
        if column.dtype.kind not in "iufb":
            hint = "give it as the model was given it, such as 0 and 1"
            text = next((value for value in column if isinstance(value, str)), column.iloc[0])
            raise UserError(f"{path}: column {name!r} holds {text!r}, which is no number; {hint}")
        if not np.isfinite(column.to_numpy(np.float64)).all():
            line = int(np.flatnonzero(~np.isfinite(column.to_numpy(np.float64)))[0]) + 2
            raise UserError(f"{path}: column {name!r} has no finite number in line {line}; fill or drop that row")
    return table[list(names)].to_numpy(np.float64)


def _labels(table: pd.DataFrame, label: str, path: Path) -> np.ndarray:
    """Return the classes (n,) int64; UserError where the column holds none."""
    _require_columns(table, [label], path)
    column = table[label]
    if column.dtype.kind not in "iufb" or not (column == column // 1).all() or column.min() < 0:
        hint = "give classes as whole numbers from 0, in the order of the model's outputs"
        raise UserError(f"{path}: column {label!r} holds no classes; {hint}")
    return column.to_numpy(np.int64, copy=True)


def _require_columns(table: pd.DataFrame, names: Sequence[str], path: Path) -> None:
    if missing := [name for name in names if name not in table.columns]:
        raise UserError(f"{path} has no column {missing[0]!r}; there are: {', '.join(map(str, table.columns))}")
