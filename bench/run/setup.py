"""What all runs of a plan share."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from bench.run.steps import Again


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster, and what each run takes of it.

    Attributes:
        address: host:port or ray://host:port; empty for the one that RAY_ADDRESS names, or else a new one here.
        jobs: runs at a time; None for as many as there is room for.
        cpus: of each run, as Ray counts them; None for what its attack says.
        gpus: of each run on a GPU, which may be a fraction; None for what its attack says.
    """

    address: str = ""
    jobs: int | None = None
    cpus: float | None = None
    gpus: float | None = None


def _variables() -> tuple[tuple[str, str], ...]:
    """Return the variables of this process's environment that the suite reads."""
    return tuple((name, value) for name, value in os.environ.items() if name.startswith("BENCH_"))


@dataclass(frozen=True)
class Setup:
    """Where runs read and write, and how they are executed.

    Attributes:
        results_dir: the results folder.
        data_dir: the data folder, None for the default.
        plugin_dir: folder of plug-ins, or one file; None for none.
        device: as torch names it, such as cpu or cuda:0.
        twins: whether null controls attack twins.
        again: which stored runs are run again.
        jobs: runs at a time, each in a process of its own; 0 for one after the other in this process.
        memory: bytes that each process may use; None for an equal share of what is free.
        debug: post-mortem debugger on every failure, in this process.
        only_cached: show what is stored, execute nothing.
        cluster: the Ray cluster that executes the runs; None for this machine alone.
        copy_to: address in object storage to which stored runs and tables are copied; empty for none.
        environment: names and values of the suite's variables, such as the cache's folder; by default this process's.
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
    cluster: Cluster | None = None
    copy_to: str = ""
    environment: tuple[tuple[str, str], ...] = field(default_factory=_variables)
