"""The tables after a sweep that cannot write them any more, or was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored_runs import stored

from bench.experiments import tables
from bench.run.scorer import Scorer
from bench.store.folders import Store
from bench.store.records import RunRecord
from victims.errors import UserError

Bench = Callable[..., Any]
QUICK = ("-a", "first-layer", "--controls", "quick")


@pytest.fixture
def score(bench: Bench, plugins: Path, results: Path) -> Callable[[], Any]:
    """Score what is stored under another protocol."""
    folders = ("--device", "cpu", "--plugin-dir", plugins, "--results-dir", results)
    return lambda: bench("score", "--controls", "quick", "--protocol", "assigned", *folders)


def full_after(writes: int) -> Callable[[Store], Any]:
    """Write tables as often as the disk allows."""
    left, write = [None] * writes, tables.refresh_tables

    def refresh(store: Store) -> Any:
        if not left:
            raise UserError("the tables cannot be written (No space left on device)")
        left.pop()
        return write(store)

    return refresh


def test_tables_that_lack_runs_at_the_end_are_an_exit_status(
    run: Bench, score: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for verb in (lambda: run(*QUICK), score):
        with monkeypatch.context() as full:
            full.setattr(tables, "refresh_tables", full_after(1))
            ended = verb()
        assert "No space left on device" in ended.out
        assert ended.status == 1
    assert run(*QUICK).status == 0


def test_an_interrupted_scoring_leaves_the_tables_of_what_is_scored(
    run: Bench, score: Callable[[], Any], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*QUICK, "--seeds", "0-2")
    done: list[RunRecord] = []
    scored = Scorer.score

    def interrupted(self: Scorer, *arguments: Any) -> RunRecord:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(scored(self, *arguments))
        return done[-1]

    monkeypatch.setattr(Scorer, "score", interrupted)
    assert score().status == 130
    assert sorted(stored(results)["protocol"]) == ["assigned"] * 2 + ["buzaglo2023"] * 3
