"""Runs in this process: for a debugger, a profiler and tests; nothing is protected from anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bench.run.executors.task import Task, work
from bench.run.runner import Outcome
from bench.terminal.progress import Reporter


class Inline:
    """Executes tasks one by one in this process.

    Args:
        reporter: told how they go.
        debugger: called with an exception of an attack before it is recorded, such as for `pdb.post_mortem`.
    """

    def __init__(self, reporter: Reporter, debugger: Callable[[BaseException], None] | None = None) -> None:
        self.reporter, self.debugger = reporter, debugger

    def execute(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Yield how each task ended."""
        for task in tasks:
            yield work(task, self.reporter, debugger=self.debugger)
