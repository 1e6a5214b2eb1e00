"""Different weights under one definition of a victim: what `run` calls an error, and what it only tells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from bench.experiments.weights import told_conflicts
from bench.publish.leaderboard import refresh_tables, write_tables
from bench.store.folders import Store, write_record
from bench.store.records import RunRecord, ScoreState

Make = Callable[..., RunRecord]


@pytest.mark.parametrize(("version", "errors"), [(1, 0), (2, 1)])
def test_a_run_of_a_superseded_version_is_on_no_board_and_no_error(
    record: Make, tmp_path: Path, version: int, errors: int
) -> None:
    """A published row of another machine differs anyway; --force cannot run again what a new version replaced."""
    told = {"victim_key": "k", "scores": ScoreState.SCORED}
    write_tables(tmp_path, [record(run_id="published", attack="deco", victim_sha="3" * 64, **told)])
    store = Store(tmp_path)
    old = record(run_id="old", variant="paper", attack_version=version, victim_sha="1" * 64, **told)
    new = record(run_id="new", attack_version=2, victim_sha="2" * 64, **told)
    for one in (old, new):
        with store.writing(one.run_id) as folder:
            write_record(folder, one)

    board = refresh_tables(store)
    assert told_conflicts(Console(quiet=True), store, [new], board) == errors


def test_a_run_without_scores_is_told_beside_a_published_conflict(record: Make, tmp_path: Path) -> None:
    rows = [record(run_id=sha, attack=f"a{sha}", victim_key="k", victim_sha=sha * 64) for sha in "12"]
    board = write_tables(tmp_path, rows)
    assert told_conflicts(Console(quiet=True), Store(tmp_path), rows, board) == 0
