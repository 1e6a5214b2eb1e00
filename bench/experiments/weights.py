"""Different weights under one definition of a victim: an error if the runs are stored here, otherwise a line."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
from rich.console import Console

from bench.publish.ranking import conflicts
from bench.publish.runs_table import current, table_of
from bench.store.folders import Store
from bench.store.records import RunRecord
from bench.terminal.console import say


def told_conflicts(console: Console, store: Store, rows: Iterable[RunRecord], board: pd.DataFrame) -> int:
    """Tell on which victims of some rows attacks met different weights, and return how many of them are errors.

    It is an error if runs that are stored here differ. It is none if only a row of runs.csv differs whose run folder is
    elsewhere: another processor rounds the same training otherwise.

    Args:
        console: told.
        store: of the runs.
        rows: whose victims count.
        board: the leaderboard of the store.
    """
    attacked = {(record.victim, record.victim_key) for record in rows if record.victim_key}
    errors = 0
    for cell, conflict in conflicts(board).items():
        if cell not in attacked:
            continue
        if here := _stored_differ(store, *cell):
            hint = "--force runs the others again, on the weights that are cached now"
        else:
            hint = "those of runs.csv were trained elsewhere; --results-dir keeps yours apart"
        say(f"{cell[0]}: {conflict}; {hint}", console, "red" if here else "yellow")
        errors += here
    return errors


def _stored_differ(store: Store, victim: str, key: str) -> bool:
    """Return whether runs stored here that no higher version supersedes met different weights of one training."""
    runs = current(table_of(store.records()))
    of_victim = runs[(runs["victim"] == victim) & (runs["victim_key"] == key) & (runs["victim_sha"] != "")]
    met = of_victim[["victim_seed", "victim_sha"]].drop_duplicates()
    return bool(met["victim_seed"].duplicated().any())
