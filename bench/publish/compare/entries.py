"""The cells of a table as they are compared: rows and images, what people call them, and which of two tables pair."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from bench.publish.board_file import read_table, sample_of
from bench.publish.parameters import readable
from bench.publish.ranking import Cell, Row, cell_of, samples, samples_and_gains
from bench.publish.statistics import Sample
from bench.store.records import CELL, ONE_TO_ONE
from bench.terminal.text import variant_name
from victims.errors import UserError

MATCHED = (
    CELL,
    tuple(name for name in CELL if name != "victim_key"),
    ("attack", "variant", "params_hash", "victim", "protocol"),
    ("attack", "variant", "victim", "protocol", "metric_suite"),
    ("attack", "variant", "victim", "protocol"),
)
"""What two cells must share to be compared, strictest first. Two cells are paired by the first of these that both
have in common, and that no other unpaired cell of either table shares."""
ROUNDED = 1e-4
"""Relative difference within which a row's number is that of its images; tables have six digits."""


class Name(NamedTuple):
    """What people know a cell by: attack, victim, and protocol with what else tells it from others."""

    attack: str
    victim: str
    scored: str

    def __str__(self) -> str:
        """Return the whole name."""
        return f"{self.attack} on {self.victim} ({self.scored})"


@dataclass(frozen=True)
class Entry:
    """One cell of a table.

    Attributes:
        row: its row of the leaderboard.
        samples: the images behind `n_good`, `n_good_unique` and `gain`, as far as the table tells them. A runs.csv has
            all three, a leaderboard.csv has the first.
    """

    row: Row
    samples: Mapping[str, Sample]

    @property
    def trainings(self) -> frozenset[int]:
        """The seeds of its victim's trainings; empty if the table does not tell all of them."""
        for sample in self.samples.values():
            return frozenset(sample.trainings)
        told = [pair.partition("=")[0] for pair in str(self.row["weights"]).split(";")]
        seeds = frozenset(int(seed) for seed in told if seed.isdecimal())
        return seeds if len(seeds) == self.row["trainings"] else frozenset()

    def on(self, trainings: frozenset[int]) -> dict[str, Sample]:
        """Return the images of some of its trainings alone."""
        kept = {
            score: {seed: seeds for seed, seeds in sample.trainings.items() if seed in trainings}
            for score, sample in self.samples.items()
        }
        return {score: Sample(found) for score, found in kept.items() if found}


def read_entries(path: Path) -> dict[Cell, Entry]:
    """Return the cells of a table, in the order of its leaderboard, without skipped and superseded runs.

    Images that do not make up the row's number tell nothing of it.

    Raises:
        UserError: the table is missing, damaged, of a newer schema, too long, or has a cell twice.
    """
    board, runs = read_table(path)
    rows = board.to_dict("records")
    told = _samples(runs) if runs is not None else {}
    found = {}
    for row in rows:
        cell = cell_of(row)
        known = {score: cells.get(cell) for score, cells in told.items()} or {"n_good": sample_of(path, row)}
        found[cell] = Entry(
            row, {score: sample for score, sample in known.items() if sample and _fits(sample, row[score])}
        )
    if len(found) < len(rows):
        raise UserError(f"{path} has {len(rows) - len(found)} rows of cells that it has already; make it again")
    return found


def _samples(runs: pd.DataFrame) -> dict[str, dict[Cell, Sample]]:
    unique = {"good_images": runs["one_to_one_images"], "null_n_good": runs[f"null_{ONE_TO_ONE}"]}
    good, gained = samples_and_gains(runs)
    return {"n_good": good, ONE_TO_ONE: samples(runs.assign(**unique)), "gain": gained}


def _fits(sample: Sample, number: float) -> bool:
    return math.isclose(sample.total, number, rel_tol=ROUNDED, abs_tol=ROUNDED)


def pairs(old: Iterable[Cell], new: Iterable[Cell]) -> dict[Cell, Cell]:
    """Return the new cell that each old one is compared to."""
    found: dict[Cell, Cell] = {}
    for shared in MATCHED:
        left: dict[Cell, tuple[list[Cell], list[Cell]]] = defaultdict(lambda: ([], []))
        for side, cells, matched in ((0, old, set(found)), (1, new, set(found.values()))):
            for cell in cells:
                if cell not in matched:
                    left[tuple(cell[CELL.index(name)] for name in shared)][side].append(cell)
        found |= {before[0]: after[0] for before, after in left.values() if len(before) == len(after) == 1}
    return found


def names_of(entries: Iterable[Entry]) -> dict[Cell, Name]:
    """Return the name that people know each cell by, with its parameters where another cell has the same name."""
    rows = {cell_of(entry.row): entry.row for entry in entries}
    names = {cell: _name(row, "") for cell, row in rows.items()}
    for told in (settings, lambda row: row["params_hash"]):
        for cells in _alike(names):
            if len({rows[cell]["params_hash"] for cell in cells}) > 1:
                names |= {cell: _name(rows[cell], str(told(rows[cell]))) for cell in cells}
    return names


def settings(row: Row) -> str:
    """Return the parameters that differ from the attack's own, as people read them."""
    return readable(row["attack"], row["variant"], row["params_json"])


def _name(row: Row, told: str) -> Name:
    attack = variant_name(row["attack"], row["variant"])
    return Name(attack, row["victim"], ", ".join(filter(None, (row["protocol"], row["budget"], told))))


def _alike(names: Mapping[Cell, Name]) -> list[list[Cell]]:
    found = defaultdict(list)
    for cell, name in names.items():
        found[name].append(cell)
    return [cells for cells in found.values() if len(cells) > 1]
