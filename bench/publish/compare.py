"""The changes between two leaderboards: of every common cell with interval and cause; and the cells of one alone."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bench.publish.board_file import read_leaderboard, sample_of
from bench.publish.numbers import signed
from bench.publish.parameters import readable
from bench.publish.ranking import VERSIONS
from bench.publish.statistics import Sample, difference_interval
from bench.store.records import CELL, COUNTS
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
    tuple(name for name in CELL if name != "victim_key"),
    ("attack", "variant", "params_hash", "victim", "protocol"),
    ("attack", "variant", "victim", "protocol", "metric_suite"),
    ("attack", "variant", "victim", "protocol"),
)
"""What two cells must share to be compared, strictest first; beyond the first, no other cell left may share it."""
HASHED_CAUSES = {"attack source": "attack_sha", "victim's definition": "victim_key", "victim weights": "weights"}
"""Causes of a changed score, each with its column of a leaderboard: hashes, which are not shown to a reader."""
CAUSES = {
    **{column.replace("_", " "): (column,) for column in VERSIONS.values()},
    "metric suite": ("metric_suite",),
    "torch": ("torch",),
    "bench version": ("bench_version", "git_commit"),
    "hardware": ("device", "cpu", "gpu"),
    "seeds": ("seed",),
    "budget": ("budget",),
}
"""The same where the values are shown."""
ALWAYS_KNOWN = ("budget",)
"""Causes of which an empty cell is a value, such as no budget."""
NO_CAUSE = "none of the recorded causes"
UNKNOWN = (np.nan, np.nan)


class Name(NamedTuple):
    """What people know a cell by: attack, victim, and protocol with what else tells it from others."""

    attack: str
    victim: str
    scored: str

    def __str__(self) -> str:
        """Return the whole name."""
        return f"{self.attack} on {self.victim} ({self.scored})"


@dataclass(frozen=True)
class Comparison:
    """Two tables against each other.

    Attributes:
        changed: one row a cell and score whose mean over seeds differs: cell, score, old, new, the ends low and high
            of the 95% interval of the change (of n_good alone; NaN where the two do not compare), and cause, all that
            differs between the runs of the two.
        same: cells that both hold and in which no score differs.
        regressions: cells that got worse, and how, as text: the interval of the change of n_good lies below 0, or
            n_good fell and has no interval, or every run fails where one did not. A change of metrics, or of the
            protocol, is none.
        only_old: cells that only the old table holds.
        only_new: cells that only the new table holds, as text, with how they stand beside the old table's.
    """

    changed: pd.DataFrame
    same: int
    regressions: list[str]
    only_old: list[Name]
    only_new: list[str]


@dataclass(frozen=True)
class _Entry:
    """One cell of a table: its row of the leaderboard, and which images are good, if known."""

    row: Row
    sample: Sample | None


def compare(old_path: Path, new_path: Path) -> Comparison:
    """Compare two tables cell by cell, each a leaderboard.csv, a runs.csv or a results folder.

    Raises:
        UserError: one of them is missing, damaged, of a newer schema, or too long.
    """
    old, new = _entries(old_path), _entries(new_path)
    names, pairs = _names([*old.values(), *new.values()]), _pairs(old, new)
    rows, same, regressions = [], 0, []
    for before, after in ((old[before], new[after]) for before, after in pairs.items()):
        name = str(names[_cell(after.row)])
        interval, cause = _interval(before, after), _cause(before.row, after.row)
        differing = [score for score in COMPARED if _differ(score, before.row[score], after.row[score])]
        same += not differing
        for score in differing:
            ends = interval if score == "n_good" else UNKNOWN
            rows.append((name, score, before.row[score], after.row[score], *ends, cause))
        if reason := _regression(before.row, after.row, interval):
            regressions.append(f"{name}: {reason}")
    changed = pd.DataFrame(rows, columns=["cell", "score", "old", "new", "low", "high", "cause"])
    beside = [entry.row for entry in old.values()]
    only_old = [names[cell] for cell in old if cell not in pairs]
    only_new = [str(names[cell]) + _standing(new[cell].row, beside) for cell in new if cell not in pairs.values()]
    return Comparison(changed, same, regressions, only_old, only_new)


def _entries(path: Path) -> dict[Cell, _Entry]:
    """Return the cells of a table, in the order of its leaderboard, without skipped and superseded runs."""
    board = read_leaderboard(path)
    rows = board.to_dict("records")
    found = {_cell(row): _Entry(row, sample_of(path, row)) for row in rows}
    if len(found) < len(rows):
        raise UserError(f"{path} has {len(rows) - len(found)} rows of cells that it has already; make it again")
    return found


def _cell(row: Row) -> Cell:
    return tuple(str(row[name]) for name in CELL)


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
    """Return the interval of the change of n_good, NaN unless the same images were scored alike.

    Where a table does not tell which images are good, it spans what the intervals of the two counts allow.
    """
    keys = {before.row["victim_key"], after.row["victim_key"]} - {""}
    same = all(before.row[name] == after.row[name] for name in ("dataset", "n"))
    if not same or len(keys) > 1 or not _scored_alike(before.row, after.row):
        return UNKNOWN
    if before.sample is not None and after.sample is not None:
        low, high = difference_interval(before.sample, after.sample)
        return (low, high) if math.isfinite(low) else UNKNOWN
    return after.row["n_good_low"] - before.row["n_good_high"], after.row["n_good_high"] - before.row["n_good_low"]


def _regression(before: Row, after: Row, interval: tuple[float, float]) -> str:
    """Return in which way a cell got worse, empty if it did not."""
    if after["failed"] == after["seeds"] and before["failed"] < before["seeds"]:
        return "every run fails"
    old, new = before["n_good"], after["n_good"]
    fell: bool = pd.notna(old) and not new >= old  # a count that vanished has fallen, too
    if not _scored_alike(before, after) or not fell or interval[1] >= 0:
        return ""
    return f"n_good fell from {old:.6g} to {new:.6g}"


def _scored_alike(before: Row, after: Row) -> bool:
    """Return whether two rows have the same metric suite and version of their protocol, which is 1 in older tables."""
    ours, theirs = (str(row["protocol_version"]).removesuffix(".0") or "1" for row in (before, after))
    return ours == theirs and bool(before["metric_suite"] == after["metric_suite"])


def _cause(before: Row, after: Row) -> str:
    """Return the differences between the runs of two cells that could change a score."""
    causes, unknown = [], []
    for label, column in HASHED_CAUSES.items():
        if before[column] and after[column]:
            causes += [label] if before[column] != after[column] else []
        elif before[column] or after[column]:
            unknown.append(label)
    parameters = _changed_parameters(_parameters(before), _parameters(after))
    causes += [f"parameters {parameters}"] if parameters else []
    for label, columns in CAUSES.items():
        old, new = (" ".join(filter(None, (str(row[name]) for name in columns))) for row in (before, after))
        if old == new:
            continue
        if (old and new) or label in ALWAYS_KNOWN:
            causes.append(f"{label} {old.replace(';', ',')} -> {new.replace(';', ',')}")
        else:
            unknown.append(label)
    if unknown:
        causes.append(f"one table does not tell: {', '.join(unknown)}")
    return "; ".join(causes) or NO_CAUSE


def _parameters(row: Row) -> dict[str, object]:
    """Return the parameters of a cell.

    Raises:
        UserError: they are no JSON object.
    """
    text = row["params_json"]
    try:
        return dict(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        named = f"{row['attack']} on {row['victim']}"
        raise UserError(f"params_json of {named} is no JSON object: {one_line(text, 80)}") from None


def _changed_parameters(old: Mapping[str, object], new: Mapping[str, object]) -> str:
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return ", ".join(f"{name} {old.get(name)} -> {new.get(name)}" for name in names)


def _names(entries: Iterable[_Entry]) -> dict[Cell, Name]:
    """Return the name that people know each cell by, with its parameters where another cell has the same name."""
    rows = {_cell(entry.row): entry.row for entry in entries}
    names = {cell: _name(row, "") for cell, row in rows.items()}
    for told in (_readable, lambda row: row["params_hash"]):
        for cells in _alike(names):
            if len({rows[cell]["params_hash"] for cell in cells}) > 1:
                names |= {cell: _name(rows[cell], str(told(rows[cell]))) for cell in cells}
    return names


def _readable(row: Row) -> str:
    return readable(row["attack"], row["variant"], row["params_json"])


def _name(row: Row, told: str) -> Name:
    attack = f"{row['attack']}{':' + row['variant'] if row['variant'] else ''}"
    return Name(attack, row["victim"], ", ".join(filter(None, (row["protocol"], row["budget"], told))))


def _alike(names: Mapping[Cell, Name]) -> list[list[Cell]]:
    found = defaultdict(list)
    for cell, name in names.items():
        found[name].append(cell)
    return [cells for cells in found.values() if len(cells) > 1]


def _standing(row: Row, others: Sequence[Row]) -> str:
    """Return how the gain of a cell stands beside the gains of other attacks on its victim, empty without any."""
    rivals = [other for other in others if all(other[name] == row[name] for name in ("victim", "n", "protocol"))]
    rivals = [other for other in rivals if not pd.isna(other["gain"])]
    if not rivals or pd.isna(row["gain"]):
        return ""
    rivals.sort(key=lambda other: -other["gain"])
    sides = {
        "behind": [_gain(other) for other in rivals if other["gain"] > row["gain"]],
        "level with": [_gain(other) for other in rivals if other["gain"] == row["gain"]],
        "ahead of": [_gain(other) for other in rivals if other["gain"] < row["gain"]],
    }
    told = [f"{side} {', '.join(names)}" for side, names in sides.items() if names]
    apart = {other["weights"] for other in rivals} - {row["weights"], ""}
    return f": gain {signed(row['gain'])}, {'; '.join(told)}{' (on other weights)' if apart and row['weights'] else ''}"


def _gain(row: Row) -> str:
    settings = _readable(row)
    return f"{row['attack']}{' ' + settings if settings else ''} {signed(row['gain'])}"
