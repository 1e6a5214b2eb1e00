"""Runs in processes of their own: what a crash, a hang or a lack of memory costs is one run.

A server that has imported torch and the other libraries forks a fresh process for each run in milliseconds, where a
fresh interpreter would take seconds.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import IO, Any

import psutil

from bench.executors import child, server
from bench.executors.task import Task, work
from bench.provenance import now_utc
from bench.records import Status
from bench.runner import Failure, Outcome
from bench.ui import TerminalReporter

POLL_SECONDS = 0.1
GRACE, LEAST_GRACE = 0.1, 10.0
"""How long an attack may go on after its budget before it is killed: a share of the budget, and the least seconds."""
DUMP_SECONDS = 2.0
"""How long a process that is killed for a hang has to write into its log where it was."""


@dataclass(frozen=True)
class Limits:
    """What each process may use: threads, and bytes of resident memory."""

    threads: int
    memory: int

    @classmethod
    def shared(cls, jobs: int, memory: int | None) -> Limits:
        """Return an equal share of the threads and of the free memory, or as much memory as is given."""
        return cls(server.threads_each(jobs), memory or psutil.virtual_memory().available // jobs)


@dataclass
class Job:
    """A process at a task.

    Attributes:
        task: what it is at.
        process: the process.
        connection: where its messages come from.
        output: what it prints.
        since: when it began, ISO 8601.
        deadline: when it is killed, on the clock of `time.monotonic`; None for never.
        killed: what its row says if it was killed.
    """

    task: Task
    process: BaseProcess
    connection: Connection
    output: IO[bytes]
    since: str = field(default_factory=now_utc)
    deadline: float | None = None
    killed: tuple[Status, str] | None = None

    def kill(self, number: signal.Signals) -> None:
        """Send a signal to the process and to all that it started."""
        assert self.process.pid is not None
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:  # it has not come to lead a group yet, or is gone
            self.process.kill()

    def end(self) -> None:
        """See that nothing of the process is left."""
        self.kill(signal.SIGKILL)
        self.process.join()
        self.connection.close()

    def failure(self) -> Failure:
        """Return what a process that is gone died of."""
        self.process.join(DUMP_SECONDS)
        code = self.process.exitcode
        if self.killed is not None:
            status, reason = self.killed
        elif code == -signal.SIGKILL:
            status, reason = Status.OOM, "the process was killed by SIGKILL, as the system does when memory runs out"
        elif code is not None and code < 0:
            status, reason = Status.ERROR, f"the process was killed by {signal.Signals(-code).name}"
        else:
            status, reason = Status.ERROR, f"the process ended in the middle of the run, with exit status {code}"
        return Failure(status, reason, self.since)


class Processes:
    """Executes tasks in processes, several at a time.

    Args:
        reporter: told how they go.
        jobs: how many run at a time.
        limits: what each may use.
    """

    def __init__(self, reporter: TerminalReporter, jobs: int, limits: Limits) -> None:
        self.reporter, self.jobs, self.limits = reporter, jobs, limits
        self.context = server.start(limits.threads)

    def execute(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Yield how each task ended, in the order in which they end."""
        waiting = deque(tasks)
        running: list[Job] = []
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    running.append(self._start(waiting.popleft()))
                wait([part for job in running for part in (job.connection, job.process.sentinel)], POLL_SECONDS)
                for job in list(running):
                    gone = job.process.exitcode is not None  # asked before its last messages are read
                    outcome = self._listen(job)
                    if outcome is None and not gone:
                        self._watch(job)
                        continue
                    running.remove(job)
                    self.reporter.finished(job.task.run_id)
                    if outcome is None and job.task.failure is None:
                        running.append(self._recording(job))
                        continue
                    job.end()
                    yield outcome or self._recorded_here(job)
        finally:
            for job in running:
                job.end()

    def _start(self, task: Task, output: IO[bytes] | None = None) -> Job:
        output = output or tempfile.TemporaryFile()  # noqa: SIM115 it is closed when the job is forgotten
        receiver, sender = self.context.Pipe(duplex=False)
        log = Connection(os.dup(output.fileno()), readable=False)  # which is how a file travels to another process
        process = self.context.Process(target=child.main, args=(task, sender, log, self.limits.threads))
        process.start()
        sender.close()
        log.close()
        return Job(task, process, receiver, output)

    def _listen(self, job: Job) -> Outcome | None:
        """Pass on what a job reports; return its outcome if it is done."""
        try:
            while job.connection.poll():
                what, arguments = job.connection.recv()
                if what == "outcome":
                    outcome: Outcome = arguments[0]
                    return outcome
                self._tell(job, what, arguments)
        except (EOFError, OSError):
            job.kill(signal.SIGKILL)  # it is dying, or has closed what it cannot do without
        return None

    def _tell(self, job: Job, what: str, arguments: tuple[Any, ...]) -> None:
        if what == "progress":
            task, step, steps, figures = arguments
            self.reporter.progress(task, step, steps, figures, job.task.run_id)
        elif what == "notice":
            self.reporter.notice(*arguments)
        elif what == "deadline":
            (budget,) = arguments
            job.deadline = None if budget is None else time.monotonic() + budget + max(LEAST_GRACE, GRACE * budget)

    def _watch(self, job: Job) -> None:
        """Kill a job that is out of time or takes too much memory."""
        overdue = job.deadline is not None and time.monotonic() > job.deadline
        if overdue and job.killed is not None:
            job.kill(signal.SIGKILL)
        elif overdue:
            job.killed = Status.TIMEOUT, f"did not return when its budget of {job.task.budget} was spent"
            job.deadline = time.monotonic() + DUMP_SECONDS
            job.kill(signal.SIGABRT)
        elif (used := _resident(job.process)) > self.limits.memory and job.killed is None:
            sizes = f"{used / 2**30:.2g} GiB of memory, of the {self.limits.memory / 2**30:.2g} that it may"
            job.killed = Status.OOM, f"took {sizes}"
            job.kill(signal.SIGKILL)

    def _recording(self, job: Job) -> Job:
        """Start a process that records what another one died of."""
        failure = job.failure()
        job.end()
        return self._start(replace(job.task, failure=failure), job.output)

    def _recorded_here(self, job: Job) -> Outcome:
        """Record in this process what two others died of, without what may have killed the second."""
        assert job.task.failure is not None
        failure = replace(job.task.failure, nulls=False)
        return work(replace(job.task, failure=failure), self.reporter, output=job.output.fileno())


def _resident(process: BaseProcess) -> int:
    """Return the bytes of memory that a process uses, 0 if it is gone."""
    try:
        resident: int = psutil.Process(process.pid).memory_info().rss
    except psutil.Error:
        resident = 0
    return resident
