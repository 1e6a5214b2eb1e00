"""The tables of a results folder as `verify` reads them, and whether leaderboards are what runs.csv makes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pandas as pd

from bench.publish.board_file import read_leaderboard
from bench.publish.claims.finding import ClaimOutcome, Finding
from bench.publish.leaderboard import board_texts, leaderboard
from bench.publish.ranking import conflicts
from bench.publish.runs_table import MOST_ROWS, read_runs, remade
from bench.store.cells import read_cells
from bench.store.file_names import LEADERBOARD_CSV, RUNS_CSV
from bench.terminal.text import short

LEADERBOARD = "leaderboard"
"""The name by which a claim asks for the leaderboard; all other names are those of files."""


class Tables:
    """The tables of a results folder, each read once."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._read: dict[str, pd.DataFrame | None] = {}

    def get(self, name: str) -> pd.DataFrame | None:
        """Return a table of texts and numbers, None if it is not there.

        `leaderboard` and `runs.csv` may be of any schema; they are returned with today's columns.

        Raises:
            UserError: it is damaged.
        """
        if name not in self._read:
            self._read[name] = self._leaderboard() if name == LEADERBOARD else self._file(name)
        return self._read[name]

    def _leaderboard(self) -> pd.DataFrame | None:
        runs = self.get(RUNS_CSV)
        if runs is not None:
            return leaderboard(runs)
        path = self.results / LEADERBOARD_CSV
        return read_leaderboard(path) if path.is_file() else None

    def _file(self, name: str) -> pd.DataFrame | None:
        path = self.results / name
        if not path.is_file():
            return None
        return read_runs(path, MOST_ROWS) if name == RUNS_CSV else read_cells(path)


def made_of_runs(tables: Tables) -> Iterator[Finding]:
    """Yield what is wrong with the tables of a folder that are made of its runs.csv.

    That is a leaderboard that differs from what runs.csv makes, and a victim's definition under which attacks met
    different weights. Nothing is wrong with a folder without runs.csv, nor with a table that is not there.

    Raises:
        UserError: runs.csv is damaged.
    """
    results, runs, board = tables.results, tables.get(RUNS_CSV), tables.get(LEADERBOARD)
    if runs is None or board is None:
        return
    for name, text in board_texts(runs, board).items():
        if not (results / name).is_file():
            continue
        stored = (results / name).read_text(encoding="utf-8", errors="replace").splitlines()
        for number, (ours, theirs) in enumerate(zip_longest(stored, text.splitlines(), fillvalue=""), start=1):
            if ours != theirs:
                why = f"line {number} is not what runs.csv makes ({_apart(ours, theirs)}); {remade(results)}"
                yield Finding(ClaimOutcome.FAILS, name, why)
                break
    for (victim, key), conflict in conflicts(board).items():
        if key:
            yield Finding(ClaimOutcome.FAILS, victim, conflict)


def _apart(ours: str, theirs: str) -> str:
    """Return where two lines begin to differ."""
    shorter = min(len(ours), len(theirs))
    place = next((i for i in range(shorter) if ours[i] != theirs[i]), shorter)
    begin = max(place - 12, 0)
    return f"{short(ours[begin : place + 12])} and not {short(theirs[begin : place + 12])}"
