"""Boards: who competes with whom, on which weights, and who is better, by the gain over the strictest null control."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bench.publish.runs_table import VERSIONS, current
from bench.publish.statistics import Floats, Sample, Seeds, ranks
from bench.store.good_images import decode
from bench.store.possible import MASKS
from bench.store.records import CELL, ONE_TO_ONE, OVERLAPPED, ScoreState, Status

Row = dict[Hashable, Any]
"""A row of a leaderboard or of a runs.csv, by column."""
Cell = tuple[str, ...]
"""The values of `CELL`, as text: what tells a row of a leaderboard from the others."""
Places = NDArray[np.int_]
"""Where rows stand in a table."""

BOARD = ("victim", "victim_key", "n", "protocol", "metric_suite")
"""What the rows of one board have in common, knowledge aside."""


@dataclass(frozen=True)
class Board:
    """The attacks that compete on one victim with one state of knowledge.

    Attributes:
        victim: its name, likewise `victim_key` of its definition, `protocol` and `metric_suite`.
        n: number of training images.
        knowledge: what the attacks may know at most, joined by "+"; empty on a board across all knowledge.
        conflict: why nobody has a rank here: attacks met different weights of one training; empty if they did not.
        rows: the rows of the leaderboard that compete, in its order. Their `rank` is the place on this board,
            `rank_low` and `rank_high` are its ends, NaN where there is none.
    """

    victim: str
    victim_key: str
    n: int
    protocol: str
    metric_suite: str
    knowledge: str
    conflict: str
    rows: pd.DataFrame


def cell_of(row: Row) -> Cell:
    """Return the cell of a row."""
    return tuple(str(row[name]) for name in CELL)


class _Run(NamedTuple):
    """What the statistics take from a run: its failure, its counts one to one, and which images are good."""

    failed: bool
    n: int
    lost: float
    found: float
    null: float
    good_images: str
    one_to_one_images: str
    null_images: str


Cells = dict[Cell, dict[int, list[_Run]]]
"""The current runs of each cell, by the seed of the victim's training."""
CELLS_OF = [*CELL, *VERSIONS.values(), "victim_sha", "victim_seed", "seed", "n", "status", "scores", *MASKS]
CELLS_OF += ["sequence", "flags"]
CELLS_OF += [f"{prefix}{name}" for name in ("n_good", ONE_TO_ONE) for prefix in ("", "null_")]
"""The columns of runs that tell them."""


def samples(runs: pd.DataFrame) -> dict[Cell, Sample]:
    """Return the good images of each cell of a runs.csv, by its current runs; cells with an unknown list are left out.

    A run that failed, or whose scoring failed, has no list of good images. It counts as its null control, or 0 where
    none was computed, spread evenly over the images, since nothing says which they would be.

    Raises:
        ValueError: a list of good images does not fit its row.
    """
    return _samples_of(_cells(runs))


def gains(runs: pd.DataFrame) -> dict[Cell, Sample]:
    """Return the gain over the strictest null control, one to one, of each cell that has null controls.

    A run that failed, or whose scoring failed, gains nothing. Where a row does not tell which images are good, only the
    counts are used.

    Raises:
        ValueError: a list of good images does not fit its row.
    """
    return _gains_of(_cells(runs))


def samples_and_gains(runs: pd.DataFrame) -> tuple[dict[Cell, Sample], dict[Cell, Sample]]:
    """Return the `samples` and the `gains` of a runs.csv, whose cells are found once for both.

    Raises:
        ValueError: a list of good images does not fit its row.
    """
    cells = _cells(runs)
    return _samples_of(cells), _gains_of(cells)


def _samples_of(cells: Cells) -> dict[Cell, Sample]:
    return {
        cell: Sample({seed: Seeds.of(np.stack([_good(run) for run in found])) for seed, found in trainings.items()})
        for cell, trainings in cells.items()
        if all(run.failed or run.good_images for found in trainings.values() for run in found)
    }


def _gains_of(cells: Cells) -> dict[Cell, Sample]:
    return {
        cell: Sample({seed: _gains(found) for seed, found in trainings.items()})
        for cell, trainings in cells.items()
        if not any(np.isnan(run.found - run.null) for found in trainings.values() for run in found)
    }


def _cells(runs: pd.DataFrame) -> Cells:
    """Return the current runs of each cell, one a seed, by the seed of the victim's training.

    Skipped runs are left out, and so are cells whose runs differ in n.
    """
    runs = current(runs[CELLS_OF])
    runs = of_each_seed(runs[runs["status"] != Status.SKIPPED])
    failed = unsuccessful(runs)
    counts = [one_to_one_counts(runs, prefix).where(~failed, 0.0) for prefix in ("", "null_")]
    columns = [failed, runs["n"], runs["null_n_good"].fillna(0), *counts, *(runs[name] for name in MASKS)]
    found: Cells = {}
    keys = [runs[name].astype(str) for name in CELL]
    cells = zip(*keys, strict=True)
    for cell, seed, *values in zip(cells, runs["victim_seed"], *columns, strict=True):
        found.setdefault(cell, {}).setdefault(int(seed), []).append(_Run(*values))
    alike = {cell: {run.n for rows in trainings.values() for run in rows} for cell, trainings in found.items()}
    return {cell: trainings for cell, trainings in found.items() if len(alike[cell]) == 1}


def of_each_seed(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one run of each seed of each training of a cell, whatever machines ran it, so that none counts twice.

    It is one that found something, if any did; of several one that had its machine for itself; of those the latest.
    """
    alone = ~runs["flags"].str.contains(OVERLAPPED, regex=False)
    ordered = runs.iloc[np.lexsort((runs["sequence"], alone, runs["status"] == Status.OK))]
    return runs.drop(index=ordered.index[ordered.duplicated([*CELL, "victim_seed", "seed"], keep="last")])


def unsuccessful(runs: pd.DataFrame) -> pd.Series[bool]:
    """Return (rows,) bool: the run counts as its null control, because it failed or could never be scored."""
    return (runs["status"] != Status.OK) | ((runs["scores"] == ScoreState.FAILED) & runs["n_good"].isna())


def one_to_one_counts(runs: pd.DataFrame, prefix: str) -> pd.Series[float]:
    """Return the counts one to one, or with the prefix those of the strictest null control."""
    return runs[f"{prefix}{ONE_TO_ONE}"].where(runs[ONE_TO_ONE].notna(), runs[f"{prefix}n_good"])


def _good(run: _Run) -> Floats:
    if run.failed:
        return np.full(int(run.n), run.lost / run.n)
    return decode(run.good_images, int(run.n)).astype(float)


def _gains(runs: Sequence[_Run]) -> Seeds:
    n = int(runs[0].n)
    if all(run.failed or (run.one_to_one_images and run.null_images) for run in runs):
        return Seeds.of(np.stack([_gain(run) for run in runs]))
    return Seeds.of_counts(n, *(np.array([getattr(run, name) for run in runs]) for name in ("found", "null")))


def _gain(run: _Run) -> Floats:
    n = int(run.n)
    if run.failed:
        return np.zeros(n)
    return decode(run.one_to_one_images, n).astype(float) - decode(run.null_images, n)


def boards(leaderboard: pd.DataFrame, known: Mapping[Cell, Sample], across_knowledge: bool = False) -> list[Board]:
    """Return the boards of a leaderboard: one for each victim, protocol, metric suite and set of knowledge that occurs.

    Who knows more may ignore it, who knows less cannot make it up: on the board of a set compete all attacks that need
    no more than that set, so none is ranked against one that was told more. Controls have no rank, nor has an attack
    whose gain over its strictest null control may be 0 at 95% confidence.

    Args:
        leaderboard: one row a cell.
        known: the gains of the cells; a row without one has no rank, and none counts it.
        across_knowledge: one board for all, whatever they were told.
    """
    found = []
    for places, knowledge, conflict, (text, low, high) in _competitions(leaderboard, known, across_knowledge):
        rows = leaderboard.iloc[places]
        shared = {name: rows[name].iloc[0] for name in BOARD}
        ranked = rows.assign(rank=text, rank_low=low, rank_high=high)
        found.append(Board(**shared, knowledge=knowledge, conflict=conflict, rows=ranked))
    return found


def own_ranks(leaderboard: pd.DataFrame, known: Mapping[Cell, Sample]) -> list[str]:
    """Return the rank of each row of a leaderboard on the board of its own knowledge, as text; "" where it has none."""
    found, own = [""] * len(leaderboard), leaderboard["knowledge"].map(_items).map(_joined).tolist()
    for places, knowledge, _, (text, *_) in _competitions(leaderboard, known):
        for place, rank in zip(places, text, strict=True):
            if own[place] == knowledge:
                found[place] = rank
    return found


def _competitions(
    leaderboard: pd.DataFrame, known: Mapping[Cell, Sample], across_knowledge: bool = False
) -> Iterator[tuple[Places, str, str, tuple[list[str], Floats, Floats]]]:
    """Yield of each board which rows it has, its knowledge and conflict, and their ranks, as text and from low to high.

    A board takes a row of each of a hundred columns, which takes longer than its ranks: only `boards` makes tables.
    """
    cells = list(zip(*(leaderboard[name].astype(str) for name in CELL), strict=True))
    beats = ((leaderboard["gain_low"] > 0) & ~leaderboard["control"].astype(bool)).tolist()
    needs, weights = leaderboard["knowledge"].map(_items).tolist(), leaderboard["weights"].tolist()
    number = leaderboard.groupby(list(BOARD), sort=False).ngroup().to_numpy()
    for board in range(number.max(initial=-1) + 1):
        places = np.flatnonzero(number == board)
        here = [needs[place] for place in places]
        told = [frozenset[str]().union(*here)] if across_knowledge else sorted(set(here), key=_fewest_first)
        key = str(leaderboard["victim_key"].iloc[places[0]])
        conflict = weights_conflict([weights[place] for place in places], key)
        for most in told:
            chosen = places[[items <= most for items in here]]
            ranked = _ranked([(cells[place], beats[place]) for place in chosen], {} if conflict else known)
            yield chosen, "" if across_knowledge else _joined(most), conflict, ranked


def weights_conflict(weights: Iterable[str], victim_key: str) -> str:
    """Return in which training the rows of a board met different weights, "" if they all met the same.

    Args:
        weights: of each row, `SEED=HASH` for each training of its victim, joined by ";".
        victim_key: of their definition; empty in old tables, which do not tell whether it is one.
    """
    pairs = sorted({pair for text in weights for pair in text.split(";") if pair})
    seeds = [pair.partition("=")[0] for pair in pairs]
    for seed in dict.fromkeys(seeds):
        hashes = [pair.partition("=")[2] for pair in pairs if pair.partition("=")[0] == seed]
        if len(hashes) > 1:
            under = "under one definition" if victim_key else "under one name, whose definition the table does not hold"
            return f"attacks met different weights {under} ({', '.join(hashes)}), so nobody is ranked"
    return ""


def conflicts(leaderboard: pd.DataFrame, names: Sequence[str] = ("victim", "victim_key")) -> dict[tuple[str, ...], str]:
    """Return the victims on whose boards nobody is ranked because weights differ, and what differs.

    Args:
        leaderboard: one row a cell.
        names: columns of `BOARD` by which the answer is told.

    Returns:
        By the values of these columns; `victim_key` is empty where a table does not tell the definition.
    """
    found = {}
    for _, rows in leaderboard[[*BOARD, "weights"]].groupby(list(BOARD), sort=False):
        if conflict := weights_conflict(rows["weights"], str(rows["victim_key"].iloc[0])):
            found[tuple(str(rows[name].iloc[0]) for name in names)] = conflict
    return found


def _items(knowledge: str) -> frozenset[str]:
    return frozenset(filter(None, knowledge.split("+")))


def _joined(items: Iterable[str]) -> str:
    return "+".join(sorted(items))


def _fewest_first(items: frozenset[str]) -> tuple[int, list[str]]:
    return len(items), sorted(items)


def _ranked(competitors: Sequence[tuple[Cell, bool]], known: Mapping[Cell, Sample]) -> tuple[list[str], Floats, Floats]:
    """Return rank, rank_low and rank_high of some cells, each with whether it surely beats its null control."""
    ranked: NDArray[np.bool_] = np.array([cell in known and beats for cell, beats in competitors], dtype=bool)
    ends = np.full((2, len(competitors)), np.nan)
    if ranked.any():
        ends[:, ranked] = ranks([known[cell] for (cell, _), has in zip(competitors, ranked, strict=True) if has])
    text = ["" if np.isnan(low) else f"{low:.0f}" if low == high else f"{low:.0f}-{high:.0f}" for low, high in ends.T]
    return text, ends[0], ends[1]
