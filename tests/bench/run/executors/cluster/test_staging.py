"""What comes back from a cluster and is stored here, without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

pytest.importorskip("ray", reason="Ray is an extra: pip install 'reconstruction-bench[ray]'")
from attacks.context import UNLIMITED
from bench.plan import registry
from bench.run.executors.cluster import worker
from bench.run.executors.cluster.bundles import unpack
from bench.run.executors.cluster.node_folders import NodeFolders, TaskInputs
from bench.run.executors.cluster.staging import FileStaging
from bench.run.executors.cluster.worker import Returned
from bench.run.executors.processes import Limits
from bench.run.executors.task import Task
from bench.run.runner import Outcome
from bench.run.session import Session
from bench.run.setup import Setup
from bench.store.folders import Store, write_record
from bench.store.records import RunRecord, Status
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


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("unfinished", [True, False])
def test_a_checkpoint_stays_here_where_the_node_kept_its_own(
    record: Callable[..., RunRecord], tmp_path: Path, status: Status, unfinished: bool
) -> None:
    """A process that died and an attack that raised are both errors; only the node knows which of them it was."""
    setup, reporter = Setup(tmp_path, None, None, "cpu", twins=False), TerminalReporter(Console(quiet=True))
    staging, store = FileStaging(setup, Session(setup, reporter), registry.victims(), ""), Store(tmp_path)
    staging.keep({".work/checkpoints/r.safetensors": b"half way"})
    outcome = Outcome(record(run_id="r", status=status))
    ended = staging.record(Returned(outcome, {"runs/r/log.txt": b"a line"}, {}, 1.0, unfinished), reporter)
    assert (ended.stored, ended.record.status) == (True, status)
    assert store.checkpoint("r").exists() is unfinished
    staging.close()


@pytest.mark.parametrize("unfinished", [True, False])
def test_a_node_says_whether_it_kept_the_checkpoint(
    record: Callable[..., RunRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unfinished: bool
) -> None:
    folders, outcome = NodeFolders(tmp_path), Outcome(record(run_id="r", status=Status.ERROR))

    def execute(_: list[Task]) -> list[Outcome]:
        if unfinished:
            unpack({".work/checkpoints/r.safetensors": b"half way"}, folders.results)
        return [outcome]

    monkeypatch.setattr(NodeFolders, "here", lambda: folders)
    monkeypatch.setattr(worker, "require_able", lambda _: None)
    monkeypatch.setattr(worker, "_forget_program", lambda: None)
    monkeypatch.setattr(worker, "Processes", lambda *_: SimpleNamespace(execute=execute))
    setup = Setup(tmp_path, None, None, "cpu", twins=False)
    task = Task("r", "deco", "", "{}", "", "digits-mlp-6-wd", 0, 0, UNLIMITED, setup)
    returned = worker.carry_out._function(task, TaskInputs(tmp_path, ""), None, Limits(1, 2**30), {})
    assert (returned.outcome, returned.unfinished) == (outcome, unfinished)
