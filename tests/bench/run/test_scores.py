"""Scoring fails for a metric, a disk or a lack of memory: what an attack found stays, and the next run scores it."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import bench.scoring.evaluation
from bench.plan.run import Run
from bench.run.executors.task import Task, work
from bench.run.failures import Failure
from bench.run.nulls.controls import NullControls
from bench.run.runner import Outcome, Runner
from bench.run.setup import Setup
from bench.store.folders import Store
from bench.store.records import ScoreState, Status

Bench = Callable[..., Any]
FAULTS: dict[str, tuple[BaseException, str]] = {
    "metric": (RuntimeError("a bug in a metric"), "metric: RuntimeError: a bug in a metric"),
    "disk": (OSError(errno.ENOSPC, "No space left on device"), "disk: OSError: [Errno 28] No space left on device"),
    "memory": (MemoryError("no more"), "memory: MemoryError: no more"),
    "exit": (SystemExit("done"), "metric: SystemExit: done"),
}


def raising(error: BaseException) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        raise error

    return call


def folder_of(results: Path) -> Path:
    (folder,) = [path for path in (results / "runs").iterdir() if not path.name.startswith(".")]
    return folder


def reconstruction(results: Path) -> str:
    return hashlib.sha256((folder_of(results) / "reconstruction.safetensors").read_bytes()).hexdigest()


def record_of(results: Path) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((folder_of(results) / "run.json").read_text())
    return stored


def row_of(results: Path, name: str = "runs.csv") -> dict[str, Any]:
    (row,) = pd.read_csv(results / name, keep_default_na=False).to_dict("records")
    return row


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fresh_run_that_cannot_be_scored_keeps_what_it_found(
    fault: str, run: Bench, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, reason = FAULTS[fault]
    with monkeypatch.context() as broken:
        broken.setattr(bench.scoring.evaluation, "evaluate", raising(error))
        ended = run("-a", "tiny", "--controls", "quick")
    assert ended.status == 1
    assert reason in ended.out
    found, row = reconstruction(results), row_of(results)
    assert (row["status"], row["scores"], row["scores_reason"]) == ("ok", "failed", reason)
    assert row["n_good"] == ""
    assert row["null_n_good"] != ""  # which is what it counts as
    board = row_of(results, "leaderboard.csv")
    assert (board["failed"], board["n_good"], board["gain_over_null"]) == (1, float(row["null_n_good"]), 0)

    again = run("-a", "tiny", "--controls", "quick")
    assert again.status == 0, again.err
    assert reconstruction(results) == found
    row = row_of(results)
    assert (row["scores"], row["scores_reason"]) == ("scored", "")
    assert row["n_good"] != ""


@pytest.mark.parametrize("fault", FAULTS)
def test_scores_of_before_stay_where_new_ones_fail(
    fault: str, run: Bench, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("-a", "tiny", "--controls", "quick").status == 0
    found, before = reconstruction(results), row_of(results)
    with monkeypatch.context() as broken:
        broken.setattr(bench.scoring.evaluation, "evaluate", raising(FAULTS[fault][0]))
        ended = run("-a", "tiny")
    assert ended.status == 1
    assert f"its scores failed: {FAULTS[fault][1]}" in ended.out
    assert reconstruction(results) == found
    row = row_of(results)
    changed = {name for name in row if row[name] != before[name]}
    assert changed == {"scores", "scores_reason"}
    assert row["scores"] == "failed"

    assert run("-a", "tiny").status == 0
    assert reconstruction(results) == found
    assert row_of(results)["null_disjoint"] != ""


def test_a_full_disk_while_scores_are_written_changes_nothing(
    run: Bench, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("-a", "tiny", "--controls", "quick").status == 0
    before = {path.name: path.read_bytes() for path in folder_of(results).iterdir()}
    with monkeypatch.context() as full:
        full.setattr("bench.run.scorer.write_record", raising(FAULTS["disk"][0]))
        ended = run("-a", "tiny")
    assert ended.status == 1
    assert "No space left on device" in ended.out
    assert {path.name: path.read_bytes() for path in folder_of(results).iterdir()} == before
    assert [path.name for path in (results / "runs").iterdir()] == [folder_of(results).name]


def test_a_full_disk_is_not_the_attacks_fault(run: Bench, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        full.setattr("bench.run.artifacts.write_reconstruction", raising(FAULTS["disk"][0]))
        ended = run("-a", "tiny")
    assert ended.status == 2  # no run of the plan could be made
    assert "cannot be stored" in ended.err
    assert run("-a", "tiny").status == 0


def test_a_full_cache_is_not_the_attacks_fault(run: Bench, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        full.setattr("victims.obtain.obtain", raising(FAULTS["disk"][0]))
        ended = run("-a", "tiny", "-a", "first-layer")
    assert ended.status == 2
    assert "the victim cannot be kept" in ended.err
    assert run("-a", "tiny").status == 0


def test_an_attack_that_fails_when_forced_again_costs_nothing(
    run: Bench, results: Path, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("-a", "tiny", "--controls", "quick").status == 0
    found, before = reconstruction(results), record_of(results)
    with monkeypatch.context() as broken:
        broken.setattr("bench.run.session.perform", raising(MemoryError()))
        ended = run("-a", "tiny", "--controls", "quick", "--force")
    assert ended.status == 1
    assert "what is stored from before stays" in ended.out
    assert reconstruction(results) == found
    assert record_of(results) == before


def test_a_control_that_lacked_memory_is_made_up_and_one_that_raises_is_not(
    run: Bench, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def null(error: BaseException) -> None:
        monkeypatch.setattr(NullControls, "_twin", raising(error))

    null(MemoryError("no more"))
    assert run("-a", "tiny").status == 0
    assert "lost_null_disjoint: MemoryError: no more" in row_of(results)["flags"]
    null(RuntimeError("a bug"))
    assert run("-a", "tiny").status == 0
    assert "failed_null_disjoint: RuntimeError: a bug" in row_of(results)["flags"]
    null(RuntimeError("another bug"))
    assert run("-a", "tiny").status == 0
    assert "failed_null_disjoint: RuntimeError: a bug" in row_of(results)["flags"]


def test_what_raised_is_tried_again_when_asked(run: Bench, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(NullControls, "_twin", raising(RuntimeError("a bug")))
        assert run("-a", "tiny").status == 0
    assert run("-a", "tiny").status == 0
    assert row_of(results)["null_disjoint"] == ""
    assert run("-a", "tiny", "--retry-failed").status == 0
    assert row_of(results)["null_disjoint"] != ""
    assert "null_disjoint" not in row_of(results)["flags"]


def test_a_row_does_not_lose_the_controls_that_it_has(
    run: Bench, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("-a", "tiny").status == 0
    before = record_of(results)
    monkeypatch.setattr("bench.scoring.METRIC_SUITE", "of tomorrow")
    assert run("-a", "tiny", "--controls", "quick").status == 0
    after = record_of(results)
    assert after["metric_suite"] == "of tomorrow"
    assert [after[name] for name in ("null_untrained", "null_disjoint")] == [
        before[name] for name in ("null_untrained", "null_disjoint")
    ]


@pytest.mark.parametrize("complete", [True, False])
def test_a_dead_process_does_not_replace_what_another_one_found(
    complete: bool, run: Bench, results: Path, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its child dies while it waits for the other process, whose clock may say anything."""
    monkeypatch.setattr("bench.run.provenance.now_utc", lambda: "1999-01-01T00:00:00.000+00:00")
    seen: list[tuple[Runner, Run]] = []
    execute = Runner.run

    def watched(self: Runner, asked: Run) -> Outcome:
        seen.append((self, asked))
        return execute(self, asked)

    monkeypatch.setattr(Runner, "run", watched)
    assert run("-a", "tiny", "--controls", "quick").status == 0
    kept = reconstruction(results)
    ((runner, asked),) = seen
    if not complete:
        runner.scorer.controls.twins = True
    run_id, failure = folder_of(results).name, Failure(Status.OOM, "took 2 GiB of memory, of the 1 that it may")
    before = record_of(results)
    session = runner.session
    setup = Setup(results, session.data_dir, plugins, "cpu", twins=False)
    task = replace(Task.of(asked, run_id, setup), failure=failure, scored_under="assigned")
    elsewhere = work(task, session.reporter)
    assert (elsewhere.trouble, record_of(results)) == (f"under assigned: {failure.reason}", before)
    outcome = runner.lost(asked, run_id, failure)
    assert reconstruction(results) == kept
    assert outcome.record.status is Status.OK
    stored = Store(results).find(outcome.record.run_id)
    assert stored is not None
    assert stored.n_good is not None
    assert stored.scores is (ScoreState.SCORED if complete else ScoreState.FAILED)
    assert bool(outcome.trouble) is complete
    assert stored.scores_reason == ("" if complete else "memory: took 2 GiB of memory, of the 1 that it may")
