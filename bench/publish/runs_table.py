"""runs.csv, one row a run, as a table: read with every check, its columns in their order and types, current rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.store.cells import DIGITS, TooLongError, read_cells
from bench.store.file_names import ANY_RECORD, RUNS, TABLES
from bench.store.good_images import decode
from bench.store.possible import LARGEST, LARGEST_WHOLE, MASKS, SMALLEST, WHOLE
from bench.store.records import (
    COLUMNS,
    RENAMED,
    SCHEMA_VERSION,
    NewerSchemaError,
    RunRecord,
    ScoreState,
    Status,
    require_known_schema,
)
from bench.store.remote import is_copy
from bench.terminal.text import command, few, one_line
from victims.errors import UserError

TEXT = [name for name, field in RunRecord.model_fields.items() if field.annotation in (str, Status, ScoreState)]
FLAGS = [name for name, field in RunRecord.model_fields.items() if field.annotation is bool]
NUMBERS = [name for name in COLUMNS if name not in (*TEXT, *FLAGS)]
MOST_ROWS = 50_000
"""Most rows of a table that is compared or reported; each row takes some milliseconds."""
VERSIONS = {"attack": "attack_version", "victim": "victim_version", "protocol": "protocol_version"}
"""By the column that names a thing, the column of its version."""
REQUIRED = ["schema_version", *(name for name, field in RunRecord.model_fields.items() if field.is_required())]


def read_runs(path: Path, most: int | None = None) -> pd.DataFrame:
    """Return a runs.csv as a table.

    Args:
        path: the file.
        most: rows that it may have at most; None for any number.

    Raises:
        UserError: the file is missing, too long, cut short, no CSV, of another schema, or holds what no run can have.
    """
    with damage_explained(path):
        return runs_of(path, read_cells(path, most))


@contextmanager
def damage_explained(path: Path) -> Iterator[None]:
    """Return a context that adds to a complaint about a damaged table how the run folders beside it make it anew.

    Raises:
        UserError: what was complained of; unchanged if no run folder is there, or the table is not damaged.
    """
    try:
        yield
    except (NewerSchemaError, TooLongError):
        raise
    except UserError as error:
        made = path.name in TABLES and path.exists() and not is_copy(path.parent)
        if not made or not has_runs(path.parent):
            raise
        raise UserError(f"{error}; move {path} away, and {remade(path.parent)}, without runs that it lacks") from None


def has_runs(root: Path) -> bool:
    """Say whether a results folder holds folders of runs."""
    return any((root / RUNS).glob(f"[!.]*/{ANY_RECORD}"))


def remade(root: Path) -> str:
    """Return which command makes the tables of a results folder from its run folders, as half a sentence."""
    again = command("run", "--only-cached", *(() if root == Path("results") else ("--results-dir", str(root))))
    return f"`{again}` makes it from {root / RUNS}"


def runs_of(path: Path, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of a runs.csv, `path`, as a table.

    Raises:
        UserError: as `read_runs`.
    """
    table = cells.rename(columns=RENAMED)
    versions = set(table.get("schema_version", []))
    for version in sorted(versions):
        require_known_schema(version, path)
    needed = COLUMNS if str(SCHEMA_VERSION) in versions else REQUIRED
    require_columns(path, table, needed, f"no runs.csv of schema {SCHEMA_VERSION}")
    strange = sorted(versions - {str(version) for version in range(1, SCHEMA_VERSION + 1)})
    if strange:
        raise UserError(f"{path} has schema {strange[0]!r}; expected 1 to {SCHEMA_VERSION}")
    if unknown := sorted(set(table["status"]) - set(Status)):
        raise UserError(f"{path} has the status {unknown[0]!r}; expected {', '.join(Status)}")
    try:
        runs = typed(table)
    except ValueError as error:
        raise UserError(f"{path} holds text in a column of numbers ({error})") from None
    _require_possible(path, runs)
    return runs


def _require_possible(path: Path, runs: pd.DataFrame) -> None:
    """Check that every number is one that a run can have.

    Raises:
        UserError: a number is infinite, a count is too small or no whole number, or the good images are not those of n.
    """
    for name in NUMBERS:
        if name in (*REQUIRED, "victim_seed") and runs[name].isna().any():
            raise UserError(f"{path} holds an empty cell in the column {name}; expected a number")
        if name in WHOLE:
            require_numbers(path, runs[name], SMALLEST.get(name, 0), LARGEST.get(name, LARGEST_WHOLE), whole=True)
        else:
            require_numbers(path, runs[name])
    for name in MASKS:
        for run, n, mask in runs.loc[runs[name] != "", ["run_id", "n", name]].itertuples(index=False):
            try:
                decode(mask, int(n))
            except ValueError as error:
                raise UserError(f"{path}: {name} of the run {run}: {one_line(str(error))}") from None


def require_columns(path: Path, table: pd.DataFrame, needed: Iterable[str], otherwise: str) -> None:
    """Check that a table has the columns that it needs.

    Raises:
        UserError: it lacks some; `otherwise` says what the file is then.
    """
    if missing := [name for name in needed if name not in table.columns]:
        raise UserError(f"{path} is {otherwise}: it lacks the column {few(missing)}")


def require_numbers(
    path: Path, column: pd.Series[float], least: float = -np.inf, most: float = np.inf, whole: bool = False
) -> None:
    """Check that all numbers of a column are finite, from `least` to `most`, and whole if `whole`.

    Raises:
        UserError: one is not.
    """
    values = column.to_numpy(dtype=float)
    values = values[~np.isnan(values)]
    possible = np.isfinite(values) & (values >= least) & (values <= most) & ((np.floor(values) == values) | (not whole))
    if not possible.all():
        expected = f"a {'whole ' * whole}number of {least} or more" if np.isfinite(least) else "a finite number"
        raise UserError(f"{path} holds {values[~possible][0]:g} in the column {column.name}; expected {expected}")


def table_of(records: Iterable[RunRecord]) -> pd.DataFrame:
    """Return records as the table of which runs.csv is the text, floats with its digits; equal texts are kept once."""
    columns: dict[str, list[object]] = {name: [] for name in COLUMNS}
    for record in records:
        for name, cell in record.model_dump(mode="json").items():
            columns[name].append(_as_written(cell))
    return typed(pd.DataFrame(columns, dtype=None if columns["run_id"] else object))


def records_of(runs: pd.DataFrame) -> list[RunRecord]:
    """Return the rows of a runs.csv as records; `table_of` makes the same rows of them."""
    rows, there = runs.to_dict("records"), runs.notna().to_dict("records")
    return [
        RunRecord.model_validate({name: cell for name, cell in row.items() if has[name]})
        for row, has in zip(rows, there, strict=True)
    ]


def _as_written(cell: object) -> object:
    if isinstance(cell, str):
        return sys.intern(cell)
    return float(f"{cell:.{DIGITS}g}") if isinstance(cell, float) else cell


def typed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of runs.csv in their order, numbers as numbers, an empty cell being none.

    A column that the table lacks holds the default of the run record.

    Raises:
        ValueError: a column of numbers holds something else.
    """
    columns = {name: table[name] if name in table.columns else _absent(name, table.index) for name in COLUMNS}
    numbers = {name: _as_numbers(columns[name]) for name in NUMBERS}
    flags = {name: columns[name].astype(str).str.lower() == "true" for name in FLAGS}
    return pd.DataFrame(columns | numbers | flags, index=table.index)


def _absent(name: str, index: pd.Index[Any]) -> pd.Series[Any]:
    """Return a column that a table lacks."""
    default = RunRecord.model_fields[name].default
    return pd.Series("" if default is None else default, index=index)


def _as_numbers(column: pd.Series[Any]) -> pd.Series[float]:
    """Return a column as numbers; a table has many columns and few rows, so pandas would take longer to replace cells.

    Raises:
        ValueError: it holds something else.
    """
    if column.dtype.kind in "biuf":
        return column
    cells = np.fromiter((None if cell == "" else cell for cell in column.tolist()), dtype=object, count=len(column))
    return pd.Series(pd.to_numeric(cells), index=column.index)


def current(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of a runs.csv that no higher version supersedes: of the same attack, victim or protocol.

    What was skipped supersedes nothing.
    """
    kept = pd.Series(True, index=runs.index)
    for name, column in VERSIONS.items():
        versions = runs[column].fillna(1)
        if versions.nunique() > 1:
            ended = versions.where(runs["status"] != Status.SKIPPED)
            kept &= ~(versions < ended.groupby(runs[name]).transform("max"))
    return defined(runs if kept.all() else runs[kept])


def defined(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs with an empty `victim_key` filled in where other rows tell it.

    A row takes the key of a row with the same victim and weights. A row without weights, whose run never saw any, takes
    the key of its victim if the table has one definition of that name.
    """
    keys = runs["victim_key"].tolist()
    if all(keys) or not any(keys):
        return runs
    of_weights, of_name = dict[tuple[str, str], str](), dict[str, set[str]]()
    rows = list(zip(runs["victim"], runs["victim_sha"], keys, strict=True))
    for victim, weights, key in rows:
        if key:
            of_weights.setdefault((victim, weights), key)
            of_name.setdefault(victim, set()).add(key)
    only = {victim: next(iter(found)) for victim, found in of_name.items() if len(found) == 1}
    told = [
        key or (of_weights.get((victim, weights), "") if weights else only.get(victim, ""))
        for victim, weights, key in rows
    ]
    return runs.assign(victim_key=told)
