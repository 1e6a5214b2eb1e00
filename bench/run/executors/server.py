"""The server that forks the processes of runs, with the libraries that all of them need. Imports no torch itself."""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

from bench.run.executors.machine import cores
from bench.terminal.interrupts import withheld

THIRD_PARTY = (
    "filelock",
    "lpips",
    "matplotlib.backends.backend_agg",
    "matplotlib.figure",
    "pandas",
    "psutil",
    "pydantic",
    "rich.progress",
    "safetensors.torch",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.metrics",
    "torch",
    "torch._dynamo",  # a second or two, which the first step of any optimiser would otherwise take
)
"""What is imported once for all processes. Nothing of this repository is: a run executes the source it is named by."""
THREADS = "OMP_NUM_THREADS"
THREAD_VARIABLES = (THREADS, "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def threads_each(jobs: int) -> int:
    """Return an equal share of the threads that OMP_NUM_THREADS allows, or else of the cores that it may use."""
    given = os.environ.get(THREADS, "")
    return max(1, (int(given) if given.isdigit() else cores()) // jobs)


def start(threads: int) -> ForkServerContext:
    """Return the context in which processes start from the server. It is started if it does not run yet.

    It is ready seconds later, and what is started waits for it.

    Args:
        threads: of each process, in the libraries that read it from the environment.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(THIRD_PARTY))
    given = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    with withheld():  # else Ctrl-C interrupts its imports, of which it prints a traceback
        forkserver.ensure_running()
    for name, value in given.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    return context
