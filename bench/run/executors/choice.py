"""The executor that the user asked for; `Inline` is this process itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bench.run.executors.task import Executor, Task, work
from bench.run.runner import Outcome
from bench.run.setup import Setup
from bench.terminal.progress import Reporter, TerminalReporter
from victims.errors import UserError


def executor_for(reporter: TerminalReporter, setup: Setup) -> Executor:
    """Return the executor that a setup asks for: Ray, this process, or processes of this machine.

    Raises:
        UserError: Ray is wanted and not installed, or its cluster does not answer.
    """
    if setup.cluster is not None and not setup.debug:
        try:
            from bench.run.executors.cluster.driver import Ray
        except ModuleNotFoundError:
            raise UserError("--executor ray needs Ray: pip install 'reconstruction-bench[ray]'") from None
        return Ray(reporter, setup)
    if setup.debug or not setup.jobs:
        return Inline(reporter, _post_mortem if setup.debug else None)
    from bench.run.executors.processes import Limits, Processes

    return Processes(reporter, setup.jobs, Limits.shared(setup.jobs, setup.memory))


def _post_mortem(error: BaseException) -> None:
    import pdb

    pdb.post_mortem(error.__traceback__)


class Inline:
    """Executes tasks one by one in this process: for a debugger, a profiler and tests; nothing is protected.

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
