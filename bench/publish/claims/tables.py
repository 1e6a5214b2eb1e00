"""The tables of a results folder as `verify` reads them, and whether leaderboards are what runs.csv makes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pandas as pd

from bench.publish.board_file import read_leaderboard
from bench.publish.claims.finding import Finding, Outcome
from bench.publish.leaderboard import board_texts
from bench.publish.ranking import conflicts
from bench.publish.runs_table import read_runs
from bench.store.cells import read_cells
from bench.terminal.text import short
from victims.errors import UserError


class Tables:
    """The tables of a results folder, each read once."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self._read: dict[str, pd.DataFrame | None] = {}

    def get(self, name: str) -> pd.DataFrame | None:
        """Return a table of texts and numbers, None if it is not there."""
        if name not in self._read:
            path = self.results if name == "leaderboard" else self.results / name
            try:
                self._read[name] = read_leaderboard(path) if name == "leaderboard" else read_cells(path)
            except UserError:
                if path.is_file():
                    raise
                self._read[name] = None
        return self._read[name]


def made_of_runs(tables: Tables) -> Iterator[Finding]:
    """Yield what is wrong with the tables of a folder that are made of its runs.csv.

    That is a leaderboard that differs from what runs.csv makes, and a victim's definition under which attacks met
    different weights. Nothing is wrong with a folder without runs.csv, nor with a table that is not there.

    Raises:
        UserError: runs.csv is damaged.
    """
    results, board = tables.results, tables.get("leaderboard")
    if board is None or not (results / "runs.csv").is_file():
        return
    runs = read_runs(results / "runs.csv")
    for name, text in board_texts(runs, board).items():
        if not (results / name).is_file():
            continue
        stored = (results / name).read_text().splitlines()
        for number, (ours, theirs) in enumerate(zip_longest(stored, text.splitlines(), fillvalue=""), start=1):
            if ours != theirs:
                hint = "change runs.csv, and `python -m bench run --only-cached` writes it again"
                why = f"line {number} is not what runs.csv makes ({_apart(ours, theirs)}); {hint}"
                yield Finding(Outcome.FAILS, name, why)
                break
    for (victim, key), conflict in conflicts(board).items():
        if key:
            yield Finding(Outcome.FAILS, victim, conflict)


def _apart(ours: str, theirs: str) -> str:
    """Return where two lines begin to differ."""
    place = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), 0)
    begin = max(place - 12, 0)
    return f"{short(ours[begin : place + 12])!r} and not {short(theirs[begin : place + 12])!r}"
