"""The process of one run: it does the task, logs its output, and reports to the parent."""

from __future__ import annotations

import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

from bench.run.executors.task import Task, work
from bench.run.isolation.capture import capture
from bench.terminal.offspring import end_with_parent, killed_first, lead_group

PROGRESS_SECONDS = 0.1
OOM_SCORE = 500
"""The oom_score_adj of a child: where memory runs out, the kernel kills it before its parent."""


class PipeReporter:
    """Forwards each call to the parent's reporter: the name of the method, and its arguments."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._lock = threading.Lock()
        self._task, self._sent = "", 0.0

    def progress(self, task: str, step: int, steps: int, figures: dict[str, float]) -> None:
        """Send where a task is, ten times a second at most."""
        now = time.monotonic()
        if task != self._task or now - self._sent >= PROGRESS_SECONDS or step >= steps:
            self._task, self._sent = task, now
            plain = {name: float(value) for name, value in figures.items()}
            self.send("progress", str(task), int(step), int(steps), plain)

    def notice(self, text: str) -> None:
        """Send a line."""
        self.send("notice", text)

    def send(self, what: str, *arguments: Any) -> None:
        """Send a message; several threads may."""
        with self._lock:
            self.connection.send((what, arguments))


def begin(output: Connection, threads: int) -> None:
    """Make this process one of the suite's: its output goes to a log, and it ends with its parent.

    Args:
        output: the log of what it prints.
        threads: that it may use.
    """
    capture(output.fileno())
    lead_group()
    end_with_parent()
    killed_first(OOM_SCORE)
    import torch

    torch.set_num_threads(threads)


def main(task: Task, connection: Connection, output: Connection, zygote: Connection, threads: int, memory: int) -> None:
    """Do a task, tell the parent how it ended, and leave.

    Args:
        task: the task.
        connection: to the parent.
        output: the log of what this process prints.
        zygote: to the zygote, which forks the processes of attacks.
        threads: that this process may use.
        memory: bytes that an attack may take.
    """
    begin(output, threads)
    from bench.run.isolation.host import IsolatedAttacks

    reporter = PipeReporter(connection)
    host = IsolatedAttacks(zygote, memory)
    zygote.close()  # the zygote ends when the host's own copy is closed, as this process ends
    reporter.send("outcome", work(task, reporter, output=sys.stdout.fileno(), host=host))
