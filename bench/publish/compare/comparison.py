"""The changes between two tables: of every common cell with interval and cause; and the cells of one alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bench.publish.compare.entries import Entry, Name, names_of, pairs, read_entries, settings
from bench.publish.compare.pair import Pair, same_images
from bench.publish.numbers import signed
from bench.publish.ranking import Row, cell_of
from bench.publish.statistics import difference_interval
from bench.terminal.text import variant_name

COLUMNS = ["cell", "score", "old", "new", "low", "high", "cause"]


@dataclass(frozen=True)
class Comparison:
    """Two tables against each other.

    Attributes:
        changed: one row a cell and score whose mean over seeds differs: cell, score, old, new, the ends low and high
            of the 95% interval of the change (of n_good, n_good_unique and gain, NaN where it is not known or the two
            do not compare), and cause, all that differs between the runs of the two.
        same: cells that both hold and in which no score differs.
        regressions: cells that got worse, and how, as text: n_good, the gain or n_good_unique surely fell, for the
            interval of the change lies below 0; or n_good fell and has no interval; or the gain was surely above 0
            and is no longer; or every run fails where one did not. A change of metrics, or of the protocol, is none,
            nor is a fall of what lies at or below its null control, or 0 for the gain, in both.
        by_chance: the other cells whose counts fell, from at or below their null control, and how, as text.
        in_part: cells of which the tables hold different trainings, and the trainings that both have, as text. Only
            those are compared, and only by the scores whose images are known.
        not_comparable: cells that both hold and that cannot be compared, and why, as text.
        only_old: cells that only the old table holds.
        only_new: cells that only the new table holds, as text, with how they stand beside the old table's.
    """

    changed: pd.DataFrame
    same: int
    regressions: list[str]
    by_chance: list[str]
    in_part: list[str]
    not_comparable: list[str]
    only_old: list[Name]
    only_new: list[str]


def compare(old_path: Path, new_path: Path) -> Comparison:
    """Return what differs, cell by cell, between two tables: each a leaderboard.csv, a runs.csv or a results folder.

    Raises:
        UserError: one of them is missing, damaged, of a newer schema, or too long.
    """
    old, new = read_entries(old_path), read_entries(new_path)
    names, paired = names_of([*old.values(), *new.values()]), pairs(old, new)
    rows, same = [], 0
    regressions, by_chance, in_part, not_comparable = [], [], [], []
    for pair in (Pair(old[before], new[after]) for before, after in paired.items()):
        name = str(names[cell_of(pair.after.row)])
        if pair.obstacle:
            not_comparable.append(f"{name}: {pair.obstacle}")
            continue
        if pair.common is not None:
            in_part.append(f"{name}{pair.told}")
        cause = pair.cause
        differing = [change for change in pair.changes.values() if change.differs]
        same += not differing
        rows += [(name, *change, cause) for change in differing]
        if reason := pair.regression:
            regressions.append(f"{name}: {reason}")
        elif fall := pair.by_chance:
            by_chance.append(f"{name}: {fall}")
    only_old = [names[cell] for cell in old if cell not in paired]
    fresh = [cell for cell in new if cell not in paired.values()]
    only_new = [str(names[cell]) + _standing(new[cell], [*old.values()]) for cell in fresh]
    changed = pd.DataFrame(rows, columns=COLUMNS)
    return Comparison(changed, same, regressions, by_chance, in_part, not_comparable, only_old, only_new)


def _standing(entry: Entry, others: Sequence[Entry]) -> str:
    """Return how the gain of a cell stands beside the gains of other attacks on its victim, empty without any.

    Two gains are level where they may be equal at 95%. Where a table does not tell the images, only equal gains are.
    A cell whose every run failed has the gain 0 and no place beside others.
    """
    row = entry.row
    if _all_failed(row):
        return ": every run failed"
    rivals = [other for other in others if all(other.row[name] == row[name] for name in ("victim", "n", "protocol"))]
    rivals = [other for other in rivals if not pd.isna(other.row["gain"]) and not _all_failed(other.row)]
    if not rivals or pd.isna(row["gain"]):
        return ""
    rivals.sort(key=lambda other: -other.row["gain"])
    leads = [_lead(entry, other) for other in rivals]
    told = []
    for side, sign in (("behind", -1), ("level with", 0), ("ahead of", 1)):
        if found := [_gain(other.row) for other, lead in zip(rivals, leads, strict=True) if lead == sign]:
            told.append(f"{side} {', '.join(found)}")
    apart = {other.row["weights"] for other in rivals} - {row["weights"], ""}
    return f": gain {signed(row['gain'])}, {'; '.join(told)}{' (on other weights)' if apart and row['weights'] else ''}"


def _all_failed(row: Row) -> bool:
    return bool(row["failed"] == row["seeds"])


def _lead(entry: Entry, other: Entry) -> int:
    """Return 1 if a cell's gain is above another's, -1 if it is below, and 0 if it may be either."""
    theirs, ours = (cell.samples.get("gain") for cell in (other, entry))
    low = high = entry.row["gain"] - other.row["gain"]
    if ours and theirs and same_images(entry.row, other.row):
        ends = difference_interval(theirs, ours)
        low, high = ends if np.isfinite(ends).all() else (low, high)
    return int(low > 0) - int(high < 0)


def _gain(row: Row) -> str:
    told = settings(row)
    return f"{variant_name(row['attack'], row['variant'])}{' ' + told if told else ''} {signed(row['gain'])}"
