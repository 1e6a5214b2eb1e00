"""CSV files: read as texts, each row with as many cells as the header; and written as tables of this program."""

from __future__ import annotations

import csv
import re
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bench.terminal.text import short
from victims.errors import UserError

DIGITS = 6
"""Significant digits of a number in our tables."""
EXACT = 2.0**53
"""Below this a float holds every whole number."""
FORMULA = re.compile(r"'*[=+\-@\t\r]")
_RETURN = re.compile(r"\r\n?")


class TooLongError(UserError):
    """A table has more rows than are compared or reported."""


def as_cell(text: str) -> str:
    """Return text as a cell of a CSV file: an apostrophe stands before what a spreadsheet would take for a formula."""
    return f"'{text}" if FORMULA.match(text) else text


def from_cell(cell: str) -> str:
    """Return the text that `as_cell` made a cell of."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def read_cells(path: Path, most: int | None = None) -> pd.DataFrame:
    """Return the cells of a CSV file, by its header.

    Args:
        path: the file.
        most: rows that it may have at most; None for any number.

    Raises:
        TooLongError: the file has more rows.
        UserError: it is missing, cut short, or no CSV.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = (row for row in csv.reader(file, strict=True) if row)
            header = next(lines, [])
            rows = list(islice(lines, None if most is None else most + 1))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; name a leaderboard.csv, a runs.csv or a results folder") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} is no CSV file that can be read ({error})") from None
    if not header:
        raise UserError(f"{path} is no CSV file that can be read (it is empty)")
    if twice := [name for name in dict.fromkeys(header) if header.count(name) > 1]:
        raise UserError(f"{path} has the column {short(twice[0])} twice; it does not say which of them is meant")
    if most is not None and len(rows) > most:
        raise TooLongError(f"{path} has more than {most:,} rows; keep those that are meant in a file of their own")
    for number, row in enumerate(rows, start=1):
        if len(row) > len(header):
            raise UserError(f"{path} is no CSV file that can be read (row {number} has more cells than the header)")
        if len(row) < len(header):
            raise UserError(f"{path} is cut short: row {number} has fewer cells than the header; fetch the file again")
    return pd.DataFrame([[from_cell(cell) for cell in row] for row in rows], columns=header, dtype=object)


def to_csv(table: pd.DataFrame) -> str:
    """Return a table as CSV, numbers with six digits, whole numbers with all of theirs, no cell a formula."""
    written = {as_cell(str(name)): _as_written(column) for name, column in table.items()}
    named = pd.DataFrame(written, index=table.index)
    return named.to_csv(index=False, float_format=f"%.{DIGITS}g", lineterminator="\n")


def _as_written(column: pd.Series[Any]) -> pd.Series[Any] | NDArray[Any]:
    """Return a column of which `DataFrame.to_csv` makes the cells; texts as an array, in which pandas infers nothing.

    An empty cell makes floats of a column of counts, which would be cut to `DIGITS`.
    """
    if column.dtype.kind not in "biuf":
        return np.fromiter(map(_text_cell, column.tolist()), dtype=object, count=len(column))
    return column.astype("Int64") if _is_long_and_whole(column) else column


def _is_long_and_whole(column: pd.Series[float]) -> bool:
    """Whether a column of floats holds whole numbers, some of more digits than `DIGITS`."""
    if column.dtype.kind != "f":
        return False
    values = column.to_numpy(dtype=float)
    values = values[~np.isnan(values)]
    whole = bool((np.abs(values) < EXACT).all()) and bool((values == np.floor(values)).all())
    return whole and bool((np.abs(values) >= 10**DIGITS).any())


def _text_cell(cell: object) -> object:
    """Return a text as a cell. Python's writer quotes no lone carriage return, which ends a row where it is read."""
    return as_cell(_RETURN.sub("\n", cell)) if isinstance(cell, str) else cell
