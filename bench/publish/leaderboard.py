"""The tables: runs.csv, one row a run, and leaderboard.csv and .md, one row a cell, averaged over seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from attacks.base import ORACLE
from bench.publish.ranking import VERSIONS, Board, boards, count_interval, current, samples, unsuccessful
from bench.store.cells import read_cells, to_csv
from bench.store.folders import Store
from bench.store.good_images import decode
from bench.store.records import (
    CELL,
    COLUMNS,
    COUNTS,
    RENAMED,
    SCHEMA_VERSION,
    SCORES,
    TUNED_BY_ORACLE,
    RunRecord,
    ScoreState,
    Status,
    require_known_schema,
)
from bench.terminal.text import one_line
from victims.errors import UserError
from victims.files import write_text

RUN_KEY = [*CELL, *VERSIONS.values(), "seed", "cpu", "gpu"]
SORT = ["victim", "protocol", "metric_suite", "attack", "variant", "params_hash", "budget", *VERSIONS.values(), "seed"]
TEXT = [name for name, field in RunRecord.model_fields.items() if field.annotation in (str, Status, ScoreState)]
FLAGS = [name for name, field in RunRecord.model_fields.items() if field.annotation is bool]
NUMBERS = [name for name in COLUMNS if name not in (*TEXT, *FLAGS)]
WHOLE = [name for name in NUMBERS if "int" in str(RunRecord.model_fields[name].annotation) and name != "gain_over_null"]
"""Columns of counts and seeds."""
LARGEST = {"n": 10**7}
"""What a count may be at most, where there is memory for each."""
MOST_ROWS = 50_000
"""Of a table that is compared or reported, which takes some milliseconds a row."""
REQUIRED = ["schema_version", *(name for name, field in RunRecord.model_fields.items() if field.is_required())]
DESCRIPTION = ["victim", "dataset", "n", "attack", "variant", "params_hash", "params_json"]
DESCRIPTION += ["knowledge", "control", "tuned_by", "budget"]
COUNTED = ["rank", "seeds", "failed", "n_good", "n_good_low", "n_good_high"]
BOARD_COLUMNS = (*DESCRIPTION, "protocol", "metric_suite", *COUNTED, *SCORES[1:])
"""The columns of leaderboard.csv; SCORES begins with n_good."""
LEGEND = """\
Training images reconstructed well enough under the protocol, averaged over seeds; in (brackets) the most that a null
control gets, in [brackets] the 95% interval over training images and seeds. A board holds the attacks that need no
more than what it says they are told. Attacks share a rank where their counts cannot be told apart at 95% confidence
for the whole board; the rank is empty where it is not recorded which images are good. With one seed, interval and rank
speak of that run alone. README.md explains."""


def read_runs(path: Path, most: int | None = None) -> pd.DataFrame:
    """Return a runs.csv as a table.

    Args:
        path: the file.
        most: rows that it may have at most; None for any number.

    Raises:
        UserError: the file is missing, too long, cut short, no CSV, of another schema, or holds what no run can have.
    """
    table = read_cells(path, most).rename(columns=RENAMED)
    versions = set(table.get("schema_version", []))
    for version in sorted(versions):
        require_known_schema(version, path)
    missing = [name for name in (COLUMNS if str(SCHEMA_VERSION) in versions else REQUIRED) if name not in table.columns]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise UserError(
            f"{path} is no runs.csv of schema {SCHEMA_VERSION}: it lacks the column {', '.join(missing[:3])}{more}"
        )
    strange = sorted(versions - {str(version) for version in range(1, SCHEMA_VERSION + 1)})
    if strange:
        raise UserError(f"{path} has schema {strange[0]!r}; expected 1 to {SCHEMA_VERSION}")
    if unknown := sorted(set(table["status"]) - set(Status)):
        raise UserError(f"{path} has the status {unknown[0]!r}; expected {', '.join(Status)}")
    try:
        runs = _typed(table)
    except ValueError as error:
        raise UserError(f"{path} holds text in a column of numbers ({error})") from None
    _require_possible(path, runs)
    return runs


def _require_possible(path: Path, runs: pd.DataFrame) -> None:
    """Check that every number is one that a run can have.

    Raises:
        UserError: a number is infinite, a count is negative or no whole number, or the good images are not those of n.
    """
    for name in NUMBERS:
        if name in REQUIRED and runs[name].isna().any():
            raise UserError(f"{path} holds an empty cell in the column {name}; expected a number")
        values = runs[name].dropna().to_numpy(dtype=float)
        possible = np.isfinite(values)
        if name in WHOLE:
            possible &= (values >= 0) & (values <= LARGEST.get(name, 2**62)) & (np.floor(values) == values)
        if not possible.all():
            expected = "a whole number of 0 or more" if name in WHOLE else "a finite number"
            value = values[~possible][0]
            raise UserError(f"{path} holds {value:g} in the column {name}; expected {expected}")
    for row in runs.loc[runs["good_images"] != "", ["run_id", "n", "good_images"]].to_dict("records"):
        try:
            decode(row["good_images"], int(row["n"]))
        except ValueError as error:
            raise UserError(f"{path}: good_images of the run {row['run_id']}: {one_line(str(error))}") from None


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of runs.csv in their order, numbers as numbers, an empty cell being none.

    A column that the table lacks holds the default of the run record.

    Raises:
        ValueError: a column of numbers holds something else.
    """
    fields = {name: RunRecord.model_fields[name].default for name in COLUMNS if name not in table.columns}
    table = table.assign(**{name: "" if default is None else default for name, default in fields.items()})
    numbers = {name: pd.to_numeric(table[name].replace("", None)) for name in NUMBERS}
    flags = {name: table[name].astype(str).str.lower() == "true" for name in FLAGS}
    return table.assign(**numbers, **flags).loc[:, list(COLUMNS)]


def refresh_tables(store: Store) -> None:
    """Write the tables from what is stored now; other processes may do the same.

    Raises:
        UserError: they cannot be written, or those that are there cannot be read.
    """
    try:
        with store.tables():
            write_tables(store.root, store.records())
    except OSError as error:
        hint = "make room, or choose another folder with --results-dir"
        raise UserError(f"the tables of {store.root} cannot be written ({error.strerror}); {hint}") from None


def write_tables(root: Path, records: list[RunRecord]) -> pd.DataFrame:
    """Write runs.csv, leaderboard.csv and leaderboard.md of a results folder and return the leaderboard.

    Rows that runs.csv already holds and that no record replaces stay: published results are not lost because their
    run folders are elsewhere, nor those of a superseded version. Of rows with the same cell, versions, seed and
    hardware that of the highest sequence stays.

    Raises:
        UserError: runs.csv is there and cannot be read.
        OSError: one of them cannot be written.
    """
    fresh = _typed(pd.DataFrame([record.model_dump(mode="json") for record in records], columns=list(COLUMNS)))
    tables = [fresh]
    if (root / "runs.csv").exists():
        tables.insert(0, read_runs(root / "runs.csv"))
    runs = pd.concat([table for table in tables if len(table)] or [fresh], ignore_index=True)
    runs = runs.sort_values(["sequence", "started_utc"], kind="stable").drop_duplicates(RUN_KEY, keep="last")
    runs = runs.sort_values(SORT, kind="stable")
    board = leaderboard(runs)
    texts = {"runs.csv": to_csv(runs), "leaderboard.csv": to_csv(board)}
    texts["leaderboard.md"] = _markdown(boards(board, samples(runs)))
    for name, text in texts.items():
        write_text(root / name, text)
    return board


def leaderboard(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row a cell: its description, seeds and failures, and scores averaged over seeds.

    A failed run, or one that is not scored, counts as its null control's score, or 0 where none was computed, in every
    count of good images, and gains nothing over the null; its other scores do not enter the means. A skipped run is not
    in the table, nor one of a superseded version, nor one that was told what no attacker knows, or whose parameters
    were chosen by it. `rank` is that among the attacks that need no more knowledge than the row's, and is empty, like
    the interval of `n_good`, where runs.csv does not tell which images are good. Rows are ordered by victim and
    `n_good`.
    """
    runs = current(runs)
    told = runs["knowledge"].str.contains(ORACLE, regex=False) | (runs["tuned_by"] == TUNED_BY_ORACLE)
    runs = runs[(runs["status"] != Status.SKIPPED) & ~told]
    if runs.empty:
        return pd.DataFrame(columns=list(BOARD_COLUMNS))
    groups = _failures_counted(runs).groupby(list(CELL), sort=False)
    known = samples(runs)
    intervals = {cell: count_interval(sample) for cell, sample in known.items()}
    board = groups[[name for name in DESCRIPTION if name not in CELL]].first().join(groups[list(SCORES)].mean())
    board["seeds"], board["failed"] = groups.size(), groups["failed"].sum()
    ends = np.array([intervals.get(cell, (np.nan, np.nan)) for cell in board.index])
    board["n_good_low"], board["n_good_high"] = ends.T
    board = board.reset_index()
    own = [found.rows.loc[found.rows["knowledge"] == found.knowledge, "rank"] for found in boards(board, known)]
    board["rank"] = pd.concat(own)
    return board[list(BOARD_COLUMNS)].sort_values(
        ["victim", "protocol", "metric_suite", "n_good", "attack"],
        ascending=[True, True, True, False, True],
        kind="stable",
    )


def _failures_counted(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with a column `failed`, and what one counts as that failed or is not scored."""
    failed = unsuccessful(runs)
    counts = {name: runs[name].where(~failed, runs[f"null_{name}"].fillna(0)) for name in COUNTS}
    gain = runs["gain_over_null"].where(~failed, runs["null_n_good"] * 0)
    return runs.assign(failed=failed, gain_over_null=gain, **counts)


def _markdown(found: list[Board]) -> str:
    """Return the boards for people, the main columns only."""
    sections = [f"{LEGEND}\n"]
    for board in found:
        told = ", ".join(board.knowledge.split("+")) or "nothing"
        title = f"## {board.victim}, told {told}"
        scoring = f"{board.n} images, protocol {board.protocol}, metric suite {board.metric_suite}"
        table = _shown(board.rows).to_markdown(index=False, disable_numparse=True)
        sections.append(f"{title}\n\n{scoring}\n\n{table}\n")
    return "\n".join(sections)


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    names = rows["attack"] + rows["variant"].map(lambda variant: f":{variant}" if variant else "")
    names += rows["budget"].map(lambda budget: f" in {budget}" if budget else "")
    shown = pd.DataFrame({"rank": rows["rank"], "attack": names + rows["control"].map({True: " (control)", False: ""})})
    shown[["params", "seeds", "failed"]] = rows[["params_hash", "seeds", "failed"]]
    for name in COUNTS:
        counts = rows[[name, f"null_{name}"]].to_numpy()
        shown[name] = [_number("{:.4g} ", count) + _number("({:.4g})", null) for count, null in counts]
    ends = rows[["n_good_low", "n_good_high"]].to_numpy()
    shown["n_good"] += [_number(" [{:.4g}, {:.4g}]", *span) for span in ends]
    for name in ("ssim_top10", "beats_oracle", "test_accuracy", "wall_s"):
        shown[name] = [_number("{:.3g}", value) for value in rows[name]]
    return shown


def _number(form: str, *values: float) -> str:
    """Return numbers as text, empty if they are unknown."""
    return "" if any(pd.isna(value) for value in values) else form.format(*values)
