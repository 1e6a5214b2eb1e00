"""The executor that the user asked for."""

from __future__ import annotations

from bench.run.executors.inline import Inline
from bench.run.executors.task import Executor
from bench.run.setup import Setup
from bench.terminal.progress import TerminalReporter
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
