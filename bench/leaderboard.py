"""The tables: runs.csv, one row a run, and leaderboard.csv and .md, one row a cell, averaged over seeds."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from attacks.base import ORACLE
from bench.records import CELL, COLUMNS, SCHEMA_VERSION, SCORES, RunRecord, Status
from victims.errors import UserError
from victims.files import write_text

RUN_KEY = [*CELL, "seed", "cpu", "gpu"]
SORT = ["victim", "protocol", "attack", "variant", "params_hash", "seed"]
TEXT = [name for name, field in RunRecord.model_fields.items() if field.annotation in (str, bool, Status)]
COUNTS = ("n_good", "n_good_haim_min", "n_good_haim_mean", "n_good_unique")
NUMBERS = [name for name in COLUMNS if name not in TEXT]
DESCRIPTION = ["victim", "dataset", "n", "attack", "variant", "params_hash", "params_json", "knowledge", "tuned_by"]
BOARD_COLUMNS = (*DESCRIPTION, "protocol", "metric_suite", "seeds", "failed", "n_good", "n_good_std", *SCORES[1:])
"""The columns of leaderboard.csv; SCORES begins with n_good."""


def read_runs(path: Path) -> pd.DataFrame:
    """Return a runs.csv as a table.

    Raises:
        UserError: the file is missing, no CSV, or of another schema.
    """
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; name a runs.csv of a results folder") from None
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise UserError(f"{path} is no CSV file that can be read ({str(error).splitlines()[0]})") from None
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UserError(
            f"{path} is no runs.csv of schema {SCHEMA_VERSION}: it lacks the column {', '.join(missing[:3])}{more}"
        )
    versions = sorted(set(table["schema_version"]) - {str(SCHEMA_VERSION)})
    if versions:
        raise UserError(f"{path} has schema {versions[0]}, this program reads {SCHEMA_VERSION}; update the program")
    try:
        return _typed(table)
    except ValueError as error:
        raise UserError(f"{path} holds text in a column of numbers ({error})") from None


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of runs.csv in their order, numbers as numbers, an empty cell being none.

    Raises:
        ValueError: a column of numbers holds something else.
    """
    numbers = {name: pd.to_numeric(table[name].replace("", None)) for name in NUMBERS}
    return table.assign(**numbers).loc[:, list(COLUMNS)]


def write_tables(root: Path, records: list[RunRecord]) -> pd.DataFrame:
    """Write runs.csv, leaderboard.csv and leaderboard.md of a results folder and return the leaderboard.

    Rows that runs.csv already holds and that no record replaces stay: published results are not lost because their
    run folders are elsewhere. Of rows with the same cell, seed and hardware the newest stays.
    """
    fresh = _typed(pd.DataFrame([record.model_dump(mode="json") for record in records], columns=list(COLUMNS)))
    tables = [fresh]
    if (root / "runs.csv").exists():
        tables.insert(0, read_runs(root / "runs.csv"))
    runs = pd.concat([table for table in tables if len(table)] or [fresh], ignore_index=True)
    runs = runs.sort_values("started_utc", kind="stable").drop_duplicates(RUN_KEY, keep="last")
    runs = runs.sort_values(SORT, kind="stable")
    board = leaderboard(runs)
    write_text(root / "runs.csv", _csv(runs))
    write_text(root / "leaderboard.csv", _csv(board))
    write_text(root / "leaderboard.md", _markdown(board))
    return board


def leaderboard(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row a cell: its description, seeds and failures, and scores averaged over seeds.

    A failed run counts as its null control's score, or 0 where none was computed, in every count of good images; its
    other scores do not enter the means. A skipped run is not in the table, nor one that was told what no attacker
    knows. Rows are ordered by victim and `n_good`.
    """
    runs = runs[(runs["status"] != Status.SKIPPED) & ~runs["knowledge"].str.contains(ORACLE, regex=False)]
    if runs.empty:
        return pd.DataFrame(columns=list(BOARD_COLUMNS))
    runs = runs.copy()
    failed = runs["status"] != Status.OK
    for name in COUNTS:
        runs[name] = runs[name].where(~failed, runs[f"null_{name}"].fillna(0))
    runs["failed"] = failed
    groups = runs.groupby(list(CELL), sort=False)
    board = groups[list(SCORES)].mean()
    board.insert(0, "seeds", groups.size())
    board.insert(1, "failed", groups["failed"].sum())
    board["n_good_std"] = groups["n_good"].std(ddof=1)
    described = groups[[name for name in DESCRIPTION if name not in CELL]].first()
    board = described.join(board).reset_index()
    return board[list(BOARD_COLUMNS)].sort_values(
        ["victim", "protocol", "n_good", "attack"], ascending=[True, True, False, True], kind="stable"
    )


def _markdown(board: pd.DataFrame) -> str:
    """Return the leaderboard's main columns for people: counts with their null in brackets."""
    shown = board[["victim", "n", "attack", "variant", "params_hash", "seeds"]].copy()
    for name in COUNTS:
        counts, nulls = board[name], board[f"null_{name}"]
        shown[name] = [f"{count:.4g} ({null:.4g})" for count, null in zip(counts, nulls, strict=True)]
    for name in ("ssim_top10", "beats_oracle", "wall_s"):
        shown[name] = board[name].map("{:.3g}".format)
    legend = (
        "Training images reconstructed with SSIM > 0.4; in brackets what the null control gets. README.md explains."
    )
    return f"{legend}\n\n{shown.to_markdown(index=False, disable_numparse=True)}\n"


def _csv(table: pd.DataFrame) -> str:
    return table.to_csv(index=False, float_format="%.6g", lineterminator="\n")
