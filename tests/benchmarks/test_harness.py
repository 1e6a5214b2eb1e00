"""What the harness adds to a run, what tables cost, and how long the first answer takes.

`run_in_a_process` and `run_in_this_process` are one run each of an attack that does nothing, on a trained victim of
100 faces, with quick controls: all that is in them is the harness.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from attacks.context import UNLIMITED
from bench.publish.leaderboard import refresh_tables
from bench.run.executors.choice import Inline
from bench.run.executors.processes import Limits, Processes
from bench.run.executors.task import Task
from bench.run.setup import Setup
from bench.run.steps import Again
from bench.store.folders import Store, write_record
from bench.store.good_images import encode
from bench.store.records import RunRecord
from bench.terminal.progress import TerminalReporter

RUNS, N = 100, 500


def task(root: Path) -> Task:
    setup = Setup(root / "results", None, None, "cpu", twins=False, again=Again.ALWAYS)
    return Task("", "first-layer", "", "{}", "default", "faces-mlp-100", 0, 0, UNLIMITED, setup)


@pytest.mark.parametrize("where", ["a_process", "this_process"])
def test_run_in(benchmark: Any, tmp_path: Path, where: str) -> None:
    reporter = TerminalReporter(Console(quiet=True))
    executor = Inline(reporter) if where == "this_process" else Processes(reporter, 1, Limits.shared(1, None))
    (first,) = executor.execute([task(tmp_path)])  # trains the victim, starts the server
    assert first.record.status == "ok"
    benchmark.pedantic(lambda: list(executor.execute([task(tmp_path)])), rounds=5)


def test_tables_of_100_runs(benchmark: Any, tmp_path: Path, record: Callable[..., RunRecord]) -> None:
    """Twenty cells of five seeds on two victims of 500 images, read from their folders, ranked and written."""
    store, rng = Store(tmp_path), np.random.default_rng(0)
    for index in range(RUNS):
        cell, seed = divmod(index, 5)
        good = rng.random(N) < 0.01 * cell
        made = record(
            run_id=f"run-{index}",
            attack=f"attack-{cell // 2}",
            victim=f"victim-{cell % 2}",
            seed=seed,
            n=N,
            n_good=int(good.sum()),
            good_images=encode(good),
        )
        with store.writing(made.run_id) as folder:
            write_record(folder, made)
    benchmark(refresh_tables, store)


@pytest.mark.parametrize("words", [["list"], ["run", "--help"]], ids=lambda words: words[0])
def test_first_answer(benchmark: Any, words: list[str]) -> None:
    command = [sys.executable, "-m", "bench", *words]
    benchmark.pedantic(lambda: subprocess.run(command, capture_output=True, check=True), rounds=5)
