"""What comes back from a cluster and is stored here, without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("ray", reason="Ray is an extra: pip install 'reconstruction-bench[ray]'")
from bench.plan import registry
from bench.run.executors.cluster.staging import FileStaging
from bench.run.executors.cluster.worker import Returned
from bench.run.runner import Outcome
from bench.run.session import Session
from bench.run.setup import Setup
from bench.store.folders import Store, write_record
from bench.store.records import RunRecord
from bench.terminal.progress import TerminalReporter


def test_a_run_that_was_only_scored_again_keeps_its_number_its_commit_and_its_other_files(
    record: Callable[..., RunRecord], tmp_path: Path
) -> None:
    setup, reporter = Setup(tmp_path, None, None, "cpu", twins=False), TerminalReporter(Console(quiet=True))
    staging, store = FileStaging(setup, Session(setup, reporter), registry.victims(), ""), Store(tmp_path)
    before = record(run_id="r", sequence=store.next_sequence(), git_commit="then", started_utc="2026-01-01T00:00:00")
    with store.writing("r") as folder:
        write_record(folder, before)
        (folder / "run-assigned.json").write_text("a row under another protocol")

    def back(**changes: str | int) -> RunRecord:
        outcome = Outcome(before.model_copy(update={"sequence": 0, "git_commit": "", **changes}))
        return staging.record(Returned(outcome, {"runs/r/log.txt": b"a line"}, {}, 1.0), reporter).record

    scored = back(sequence=before.sequence, git_commit="then", metric_suite="2")
    assert (scored.sequence, scored.git_commit, store.find("r")) == (before.sequence, "then", scored)
    assert {path.name for path in store.folder("r").iterdir()} == {"run.json", "run-assigned.json", "log.txt"}
    attacked = back(started_utc="2026-01-02T00:00:00")
    assert attacked.sequence > before.sequence
    assert {path.name for path in store.folder("r").iterdir()} == {"run.json", "log.txt"}
    staging.close()
