"""The changes between two runs.csv: of every common cell with interval and cause; and the cells of one alone."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.publish.leaderboard import MOST_ROWS, leaderboard, read_runs
from bench.publish.ranking import VERSIONS, Sample, current, difference_interval, samples
from bench.store.records import CELL, COUNTS, Status
from bench.terminal.text import one_line
from victims.errors import UserError

Cell = tuple[str, ...]
Row = dict[Hashable, Any]

COMPARED = (*COUNTS, "failed", "ssim_top10", "mse_mean", "wall_s")
PRECISION = 1e-5
SLACK = {"wall_s": 0.1}
"""Relative difference below which a score is the same, where it is not `PRECISION`: seconds are never equal."""
MATCHED = (
    CELL,
    ("attack", "variant", "params_hash", "victim", "protocol"),
    ("attack", "variant", "victim", "protocol", "metric_suite"),
    ("attack", "variant", "victim", "protocol"),
)
"""What two cells must share to be compared, strictest first; beyond the first, no other cell left may share it."""
CAUSES = {
    **{column.replace("_", " "): (column,) for column in VERSIONS.values()},
    "metric suite": ("metric_suite",),
    "torch": ("torch",),
    "bench version": ("bench_version", "git_commit"),
    "hardware": ("device", "cpu", "gpu"),
    "seeds": ("seed",),
    "budget": ("budget",),
}
"""What may have changed a score, by the columns of runs.csv that tell."""
HASHED_CAUSES = {"attack source": "attack_sha", "victim weights": "victim_sha"}
"""The same where the column's value says nothing to a reader, and is empty where it was not recorded."""
TOLD = ("params_json", "run_id", *HASHED_CAUSES.values(), *(name for names in CAUSES.values() for name in names))
"""The columns of a run that tell causes."""
NO_CAUSE = "none of the recorded causes"
UNKNOWN = (np.nan, np.nan)


@dataclass(frozen=True)
class Comparison:
    """Two tables against each other.

    Attributes:
        changed: one row a cell and score whose mean over seeds differs: cell, score, old, new, the ends low and high
            of the 95% interval of the change (of n_good alone; NaN where the two do not compare image by image), and
            cause, all that differs between the runs of the two.
        same: cells that both hold and in which no score differs.
        regressions: cells that got worse, and how, as text: the interval of the change of n_good lies below 0, or
            n_good fell and has no interval, or every run fails where one did not. A change of metrics is none.
        only_old: cells that only the old table holds, as text.
        only_new: cells that only the new table holds, as text.
    """

    changed: pd.DataFrame
    same: int
    regressions: list[str]
    only_old: list[str]
    only_new: list[str]


@dataclass(frozen=True)
class _Entry:
    """One cell of a table: its row of the leaderboard, `TOLD` of its runs, and which images are good, if known."""

    scores: Row
    runs: list[Row]
    sample: Sample | None


def compare(old_path: Path, new_path: Path) -> Comparison:
    """Compare two runs.csv files, cell by cell.

    Raises:
        UserError: one of them is missing, damaged, of a newer schema, or longer than `MOST_ROWS`.
    """
    old, new = _entries(old_path), _entries(new_path)
    names, pairs = _names([*old, *new]), _pairs(old, new)
    rows, same, regressions = [], 0, []
    for before, after in ((old[before], new[after]) for before, after in pairs.items()):
        name = names[_cell(after.scores)]
        interval, cause = _interval(before, after), _cause(before.runs, after.runs)
        differing = [score for score in COMPARED if _differ(score, before.scores[score], after.scores[score])]
        same += not differing
        for score in differing:
            ends = interval if score == "n_good" else UNKNOWN
            rows.append((name, score, before.scores[score], after.scores[score], *ends, cause))
        if reason := _regression(before.scores, after.scores, interval):
            regressions.append(f"{name}: {reason}")
    changed = pd.DataFrame(rows, columns=["cell", "score", "old", "new", "low", "high", "cause"])
    only_old = [names[cell] for cell in old if cell not in pairs]
    only_new = [names[cell] for cell in new if cell not in pairs.values()]
    return Comparison(changed, same, regressions, only_old, only_new)


def _entries(path: Path) -> dict[Cell, _Entry]:
    """Return the cells of a runs.csv, in the order of its leaderboard; what was skipped or superseded is in none."""
    runs = current(read_runs(path, MOST_ROWS))
    runs = runs[runs["status"] != Status.SKIPPED]
    known, of_cell = samples(runs), defaultdict(list)
    for run in runs[list({*CELL, *TOLD})].to_dict("records"):
        of_cell[_cell(run)].append(run)
    rows = {_cell(row): row for row in leaderboard(runs).to_dict("records")}
    return {cell: _Entry(row, of_cell[cell], known.get(cell)) for cell, row in rows.items()}


def _cell(row: Row) -> Cell:
    return tuple(row[name] for name in CELL)


def _pairs(old: Iterable[Cell], new: Iterable[Cell]) -> dict[Cell, Cell]:
    """Return the new cell that each old one is compared to."""
    pairs: dict[Cell, Cell] = {}
    for shared in MATCHED:
        left: dict[Cell, tuple[list[Cell], list[Cell]]] = defaultdict(lambda: ([], []))
        for side, cells, matched in ((0, old, set(pairs)), (1, new, set(pairs.values()))):
            for cell in cells:
                if cell not in matched:
                    left[tuple(cell[CELL.index(name)] for name in shared)][side].append(cell)
        pairs |= {before[0]: after[0] for before, after in left.values() if len(before) == len(after) == 1}
    return pairs


def _differ(name: str, before: float, after: float) -> bool:
    if pd.isna(before) or pd.isna(after):
        return bool(pd.isna(before) != pd.isna(after))
    return abs(before - after) > SLACK.get(name, PRECISION) * max(abs(before), abs(after))


def _interval(before: _Entry, after: _Entry) -> tuple[float, float]:
    """Return the interval of the change of n_good, NaN unless the same images were scored alike."""
    alike = all(before.scores[name] == after.scores[name] for name in ("metric_suite", "dataset", "n"))
    if not alike or before.sample is None or after.sample is None:
        return UNKNOWN
    return difference_interval(before.sample, after.sample)


def _regression(before: Row, after: Row, interval: tuple[float, float]) -> str:
    """Return in which way a cell got worse, empty if it did not."""
    if after["failed"] == after["seeds"] and before["failed"] < before["seeds"]:
        return "every run fails"
    old, new = before["n_good"], after["n_good"]
    fell: bool = pd.notna(old) and not new >= old  # a count that vanished has fallen, too
    if before["metric_suite"] != after["metric_suite"] or not fell or interval[1] >= 0:
        return ""
    return f"n_good fell from {old:.6g} to {new:.6g}"


def _cause(before: list[Row], after: list[Row]) -> str:
    """Return the differences between the runs of two cells that could change a score."""
    causes = []
    for label, column in HASHED_CAUSES.items():
        old, new = ({row[column] for row in rows} - {""} for rows in (before, after))
        if old != new:
            causes.append(label if old and new else f"{label} (unknown in one file)")
    parameters = _changed_parameters(*(_parameters(rows[0]) for rows in (before, after)))
    causes += [f"parameters {parameters}"] if parameters else []
    for label, columns in CAUSES.items():
        texts = [_values(rows, columns) for rows in (before, after)]
        causes += [f"{label} {' -> '.join(texts)}"] if texts[0] != texts[1] else []
    return "; ".join(causes) or NO_CAUSE


def _parameters(row: Row) -> dict[str, object]:
    """Return the parameters of a run.

    Raises:
        UserError: they are no JSON object.
    """
    text = row["params_json"]
    try:
        return dict(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        raise UserError(f"params_json of the run {row['run_id']} is no JSON object: {one_line(text, 80)}") from None


def _changed_parameters(old: dict[str, object], new: dict[str, object]) -> str:
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return ", ".join(f"{name} {old.get(name)} -> {new.get(name)}" for name in names)


def _values(rows: list[Row], columns: tuple[str, ...]) -> str:
    """Return the distinct values of some columns as text."""
    distinct = sorted({tuple(row[name] for name in columns) for row in rows})
    return ",".join(" ".join(str(value) for value in row if value != "") for row in distinct)


def _scored(cell: Cell) -> str:
    """Return a cell's protocol, with its budget if it had one."""
    return f"{cell[4]}, {cell[6]}" if cell[6] else cell[4]


def _names(cells: Iterable[Cell]) -> dict[Cell, str]:
    """Return the text that people know each cell by, with the hash of its parameters where another has the same."""
    plain = {cell: f"{cell[0]}{':' + cell[1] if cell[1] else ''} on {cell[3]} ({_scored(cell)})" for cell in cells}
    hashes = defaultdict(set)
    for cell, name in plain.items():
        hashes[name].add(cell[2])
    return {cell: f"{name[:-1]}, {cell[2]})" if len(hashes[name]) > 1 else name for cell, name in plain.items()}
