"""What planning and recording 10,000 tiny runs of a cluster take of the driver: seconds, and memory.

Runs are not executed: each comes back at once with a row and a file, as from a worker.

    python tests/benchmarks/many_runs.py 10000
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from attacks.context import Budget
from bench.experiments import sweep
from bench.plan import registry
from bench.plan.config import Section, planned
from bench.run.executors.cluster import needs
from bench.run.executors.cluster.staging import FileStaging
from bench.run.executors.cluster.worker import Returned
from bench.run.executors.task import Task
from bench.run.provenance import blank_record
from bench.run.runner import Outcome
from bench.run.session import Session
from bench.run.setup import Setup
from bench.store.records import RunRecord, ScoreState
from bench.terminal.console import say
from bench.terminal.progress import TerminalReporter

SCORED = {"scores": ScoreState.SCORED, "null_n_good": 0, "wall_s": 0.1, "train_s": 0.1}


class Stub:
    """The driver of a cluster whose workers take no time."""

    def __init__(self, reporter: TerminalReporter, setup: Setup) -> None:
        self.reporter, self.victims = reporter, registry.victims()
        self.session = Session(setup, reporter)
        self.attacks, self.staging = registry.attacks(), FileStaging(setup, self.session, self.victims, "")

    def execute(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        blank: RunRecord | None = None
        for task in tasks:
            run = task.run(self.attacks, self.victims)
            needs.preparations(run, twins=True)
            blank = blank or blank_record(run, task.run_id, self.session.definition(run.victim), torch.device("cpu"))
            own = {"run_id": task.run_id, "seed": task.seed, "victim": task.victim, "n_good": task.seed % 3}
            record = blank.model_copy(update=SCORED | own)
            files = {f"runs/{task.run_id}/trace.csv": b"step,wall_s\n" * 50}
            yield self.staging.record(Returned(Outcome(record), files, {}, 0.0), self.reporter)


def main(runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BENCH_CACHE_DIR"] = f"{folder}/cache"
        setup = Setup(Path(folder) / "results", None, None, "cpu", twins=False)
        sections = (Section(attack=("random",), victim=("faces-mlp-*",), seeds=f"0-{runs - 1}"),)
        began = time.monotonic()
        plan = planned(sections, registry.attacks(), registry.victims(), Budget())
        plan = plan[:runs]
        say(f"{len(plan)} runs listed in {time.monotonic() - began:.1f} s")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sweep.executor_for = Stub
        began, computed = time.monotonic(), time.process_time()
        with Path(os.devnull).open("w") as nobody, contextlib.redirect_stdout(nobody):
            rows, failures, *_ = sweep.execute_plan(plan, setup)
        assert len(rows) == runs and not failures
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds, computed = time.monotonic() - began, time.process_time() - computed
        say(f"{runs} runs planned and recorded in {seconds:.0f} s, {computed:.0f} s of them of processor time")
        say(f"peak memory {peak / 1024:.0f} MiB, {(peak - before) / 1024:.0f} MiB of them for the runs")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
