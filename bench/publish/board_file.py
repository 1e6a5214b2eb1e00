"""A leaderboard, whatever it is read from: a leaderboard.csv of any schema, a runs.csv, or a results folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.publish.leaderboard import BOARD_COLUMNS, COUNTED
from bench.publish.leaderboard import leaderboard as leaderboard_of_runs
from bench.publish.ranking import one_to_one_counts
from bench.publish.runs_table import MOST_ROWS, VERSIONS, damage_explained, require_columns, require_numbers, runs_of
from bench.publish.statistics import Sample, Seeds
from bench.store.cells import read_cells
from bench.store.file_names import LEADERBOARD_CSV, RUNS_CSV
from bench.store.good_images import decode
from bench.store.possible import LARGEST
from bench.store.records import CELL, RENAMED, SCORES, require_known_schema
from bench.terminal.text import one_line
from victims.errors import UserError

NUMBERS = [name for name in (*COUNTED, *SCORES, "n") if name != "rank"]
ADDED = ("victim_key", "budget", "rank", "failed", "overlapped")
"""Columns that leaderboards of the first schema lack, so that a table need not have them."""
NEEDED = tuple(name for name in (*CELL, "n", "n_good", "seeds", "params_json", "dataset") if name not in ADDED)


def read_leaderboard(path: Path) -> pd.DataFrame:
    """Return the leaderboard that a file or folder holds, or that its runs make.

    Args:
        path: a leaderboard.csv of this or an earlier schema, a runs.csv, or a results folder, whose runs.csv is
            taken, and its leaderboard.csv if there is none. Rows of runs tell more than an early leaderboard.

    Raises:
        UserError: it is missing, damaged, neither of these, of a newer schema, or longer than `MOST_ROWS`.
    """
    return read_table(path)[0]


def read_table(path: Path) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return the leaderboard of a file or folder, and the runs that it is made of, None if the file is a leaderboard.

    Raises:
        UserError: as `read_leaderboard`.
    """
    path = _table_in(path)
    with damage_explained(path):
        cells = read_cells(path, MOST_ROWS)
        if "run_id" in cells.columns:
            runs = _counted(runs_of(path, cells))
            return leaderboard_of_runs(runs), runs
        return _typed(path, cells.rename(columns=RENAMED)), None


def _counted(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs, each list of images that disagrees with its row's count emptied: the count is believed."""
    found, null = (one_to_one_counts(runs, prefix) for prefix in ("", "null_"))
    counts = {"good_images": runs["n_good"], "one_to_one_images": found, "null_images": null}
    held = {name: runs[name].map(lambda mask: int(mask or "0", 16).bit_count()) for name in counts}
    return runs.assign(**{name: runs[name].where(held[name] == count, "") for name, count in counts.items()})


def _table_in(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in (RUNS_CSV, LEADERBOARD_CSV):
        if (path / name).exists():
            return path / name
    raise UserError(f"the folder {path} holds no runs.csv and no leaderboard.csv; name a results folder or a table")


def _typed(path: Path, table: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of a leaderboard.csv, `path`, as a table with today's columns.

    Raises:
        UserError: it is none, of a newer schema, or a number is none that a leaderboard can have.
    """
    for version in sorted(set(table.get("schema_version", []))):
        require_known_schema(version, path)
    require_columns(path, table, NEEDED, "neither a runs.csv nor a leaderboard.csv")
    absent = {name: "1" if name in VERSIONS.values() else "" for name in BOARD_COLUMNS if name not in table.columns}
    table = table.assign(**absent)
    for name in NUMBERS:
        try:
            table[name] = pd.to_numeric(table[name].replace("", None)).astype(float)
        except ValueError as error:
            raise UserError(f"{path} holds text in a column of numbers ({error})") from None
        least = 0 if name in ("n", "seeds", "failed", "n_good") else -np.inf
        require_numbers(path, table[name], least, LARGEST.get(name, np.inf))
        if name in ("n", "seeds") and not (table[name] >= 1).all():
            raise UserError(f"{path} holds no number of 1 or more in a cell of the column {name}")
    table[["failed", "overlapped"]] = table[["failed", "overlapped"]].fillna(0)
    found, null = (one_to_one_counts(table, prefix) for prefix in ("", "null_"))
    table["gain"] = table["gain"].fillna(found - null)
    table["control"] = table["control"].astype(str).str.lower() == "true"
    return table


def sample_of(path: Path, row: Mapping[Hashable, Any]) -> Sample | None:
    """Return which images the runs of a leaderboard's row found, None where it does not tell.

    Raises:
        UserError: its list of images does not fit the row.
    """
    n = int(row["n"])
    values: dict[int, list[np.ndarray]] = defaultdict(list)
    for part in filter(None, str(row["good_images"]).split(";")):
        seed, _, images = part.partition(":")
        try:
            good = np.full(n, float(images[1:]) / n) if images.startswith("~") else decode(images, n).astype(float)
            values[int(seed)].append(good)
        except ValueError as error:
            named = f"good_images of {row['attack']} on {row['victim']}"
            raise UserError(f"{path}: {named}: {one_line(str(error))}") from None
    return Sample({seed: Seeds.of(np.stack(found)) for seed, found in values.items()}) if values else None
