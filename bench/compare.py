"""What changed between two runs.csv: every cell that both hold, and every cell that only one holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bench.leaderboard import leaderboard, read_runs
from bench.records import CELL

COMPARED = ("n_good", "n_good_haim_min", "n_good_haim_mean", "n_good_unique", "ssim_top10", "mse_mean", "wall_s")
PRECISION = 1e-5


@dataclass(frozen=True)
class Comparison:
    """Two tables against each other.

    Attributes:
        changed: one row a cell and score whose mean over seeds differs: attack, variant, victim, score, old, new.
        same: cells that both hold and in which no score differs.
        only_old: cells that only the old table holds, as text.
        only_new: cells that only the new table holds, as text.
    """

    changed: pd.DataFrame
    same: int
    only_old: list[str]
    only_new: list[str]


def compare(old_path: Path, new_path: Path) -> Comparison:
    """Compare two runs.csv files, cell by cell.

    Raises:
        UserError: one of them is missing or of another schema.
    """
    old, new = (leaderboard(read_runs(path)).set_index(list(CELL)) for path in (old_path, new_path))
    rows, same = [], 0
    for cell in (cell for cell in new.index if cell in old.index):
        before, after = old.loc[cell], new.loc[cell]
        differing = [name for name in COMPARED if _differ(before[name], after[name])]
        same += not differing
        rows += [(cell[0], cell[1], cell[3], name, before[name], after[name]) for name in differing]
    changed = pd.DataFrame(rows, columns=["attack", "variant", "victim", "score", "old", "new"])
    return Comparison(changed, same, _names(old.index.difference(new.index)), _names(new.index.difference(old.index)))


def _differ(before: float, after: float) -> bool:
    if pd.isna(before) or pd.isna(after):
        return bool(pd.isna(before) != pd.isna(after))
    return abs(before - after) > PRECISION * max(abs(before), abs(after))


def _names(index: pd.Index) -> list[str]:
    return [f"{cell[0]}{':' + cell[1] if cell[1] else ''} on {cell[3]} ({cell[4]})" for cell in index]
