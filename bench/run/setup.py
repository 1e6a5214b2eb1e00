"""What all runs of a plan share."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bench.run.steps import Again


@dataclass(frozen=True)
class Setup:
    """Where runs read and write, and how they are executed.

    Attributes:
        results_dir: the results folder.
        data_dir: the data folder, None for the default.
        plugin_dir: folder of plug-ins.
        device: as torch names it, such as cpu or cuda:0.
        twins: whether null controls attack twins.
        again: which stored runs are run again.
        jobs: runs at a time, each in a process of its own; 0 for one after the other in this process.
        memory: bytes that each process may use; None for an equal share of what is free.
        debug: post-mortem debugger on every failure, in this process.
        only_cached: show what is stored, execute nothing.
        ray: address of the Ray cluster that executes the runs, empty for the one at hand; None for this machine alone.
        environment: variables of the suite, the cache's folder among them.
    """

    results_dir: Path
    data_dir: Path | None
    plugin_dir: Path | None
    device: str
    twins: bool
    again: Again = Again.NEVER
    jobs: int = 1
    memory: int | None = None
    debug: bool = False
    only_cached: bool = False
    ray: str | None = None
    environment: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def variables() -> tuple[tuple[str, str], ...]:
        """Return the variables of this process's environment that the suite reads."""
        return tuple((name, value) for name, value in os.environ.items() if name.startswith("BENCH_"))
