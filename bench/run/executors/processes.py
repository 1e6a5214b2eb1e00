"""Runs in processes of their own: a crash, a hang or a lack of memory costs one run.

A server that has imported torch and the other libraries forks a fresh process for each run in milliseconds, where a
fresh interpreter would take seconds; and beside it another one, which forks the processes of its attacks.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

import psutil

from bench.run.executors import child, server
from bench.run.executors.machine import free_memory
from bench.run.executors.task import Task, work
from bench.run.failures import SERVER_GONE, Failure, died_of, took_too_much
from bench.run.isolation import zygote
from bench.run.runner import Outcome
from bench.run.setup import Setup
from bench.store.records import Status
from bench.terminal.offspring import kill_group
from bench.terminal.progress import Reporter
from victims.errors import UserError

if TYPE_CHECKING:
    from bench.run.isolation.host import IsolatedAttacks

POLL_SECONDS = 0.1
LEAVE_SECONDS = 2.0
"""How long a process has to write into its log where it was, or to end what it has started."""
START_SECONDS = 30.0
"""How long starting a process is tried: a killed server refuses connections before its death can be seen."""


class JobReporter(Reporter, Protocol):
    """A reporter that shows several jobs at once."""

    def progress(self, task: str, step: int, steps: int, figures: dict[str, float], job: str = "") -> None:
        """Show where a task of a job is."""

    def finished(self, job: str) -> None:
        """Show nothing of a job any more."""


@dataclass(frozen=True)
class Limits:
    """What each process may use: threads, and bytes of resident memory."""

    threads: int
    memory: int

    @classmethod
    def shared(cls, jobs: int, memory: int | None) -> Limits:
        """Return an equal share of the threads and of the free memory, or as much memory as is given."""
        return cls(server.threads_each(jobs), memory or free_memory() // jobs)


@dataclass
class Job:
    """A process at a task.

    Attributes:
        task: what it is at.
        process: the process.
        attacks: its zygote, which forks the processes of its attacks.
        connection: where its messages come from.
        output: what it prints.
        killed: status and reason for its row, if it was killed here.
    """

    task: Task
    process: BaseProcess
    attacks: BaseProcess
    connection: Connection
    output: IO[bytes]
    killed: tuple[Status, str] | None = None

    def kill(self) -> None:
        """Kill the process and all that it started."""
        kill_group(self.process)

    def end(self) -> None:
        """End the process. Its zygote then ends the attacks, and itself."""
        self.kill()
        self.process.join()
        self.connection.close()
        self.attacks.join(LEAVE_SECONDS)
        self.attacks.kill()

    def failure(self) -> Failure:
        """Return the failure of a process that has ended without an outcome."""
        self.process.join(LEAVE_SECONDS)
        return Failure(*(self.killed or died_of(self.process.exitcode)))


class Processes:
    """Executes tasks in processes, several at a time.

    Args:
        reporter: told how they go.
        jobs: how many run at a time.
        limits: what each may use.
    """

    def __init__(self, reporter: JobReporter, jobs: int, limits: Limits) -> None:
        self.reporter, self.jobs, self.limits = reporter, jobs, limits
        server.start(limits.threads)
        self._begun_again: set[str] = set()

    def execute(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Yield how each task ended, in the order in which they end.

        Raises:
            UserError: no process can be started.
        """
        waiting = deque(tasks)
        running: list[Job] = []
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    running.append(self._start(waiting.popleft()))
                wait([part for job in running for part in (job.connection, job.process.sentinel)], POLL_SECONDS)
                for job in list(running):
                    gone = job.process.exitcode is not None  # asked before the last messages are read
                    outcome = self._listen(job)
                    if outcome is None and not gone:
                        self._watch(job)
                        continue
                    running.remove(job)
                    self.reporter.finished(job.task.run_id)
                    if outcome is None and (next_job := self._next(job)) is not None:
                        running.append(next_job)
                        continue
                    job.end()
                    yield outcome or self._recorded_here(job)
        finally:
            for job in running:
                job.end()

    def _start(self, task: Task, output: IO[bytes] | None = None) -> Job:
        output = output or tempfile.TemporaryFile()  # noqa: SIM115 it is closed when the job is forgotten
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                return self._started(task, output)
            except (OSError, EOFError) as error:
                if time.monotonic() > until:
                    raise UserError(f"no process can be started ({type(error).__name__}: {error})") from None
                time.sleep(POLL_SECONDS)

    def _started(self, task: Task, output: IO[bytes]) -> Job:
        context = server.start(self.limits.threads)
        receiver, sender = context.Pipe(duplex=False)
        threads, memory = self.limits.threads, self.limits.memory
        attacks, control = _zygote(output, task.setup.plugin_dir, threads, task.setup.environment)
        with sender, control, log_of(output) as log:
            process = context.Process(target=child.main, args=(task, sender, log, control, threads, memory))
            process.start()
        return Job(task, process, attacks, receiver, output)

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
            job.kill()  # it is dying, or has closed what it cannot do without
        return None

    def _tell(self, job: Job, what: str, arguments: tuple[Any, ...]) -> None:
        if what == "progress":
            task, step, steps, figures = arguments
            self.reporter.progress(task, step, steps, figures, job.task.run_id)
        elif what == "notice":
            self.reporter.notice(*arguments)

    def _watch(self, job: Job) -> None:
        """Kill a job that takes too much memory."""
        if (used := _memory_of(job.process)) > self.limits.memory and job.killed is None:
            job.killed = took_too_much(used, self.limits.memory)
            job.kill()

    def _next(self, job: Job) -> Job | None:
        """Return the job after a dead one: its task once more if its server died, else the record of its failure."""
        run_id = job.task.run_id
        if job.process.exitcode == SERVER_GONE and job.killed is None and run_id not in self._begun_again:
            self._begun_again.add(run_id)
            job.end()
            return self._start(job.task)
        if job.task.failure is None:
            failure = job.failure()
            job.end()
            return self._start(replace(job.task, failure=failure), job.output)
        return None

    def _recorded_here(self, job: Job) -> Outcome:
        """Return the outcome of a failure, recorded in this process after the one that was to record it died too."""
        assert job.task.failure is not None
        failure = replace(job.task.failure, nulls=False)
        return work(replace(job.task, failure=failure), self.reporter, output=job.output.fileno())


def log_of(output: IO[bytes]) -> Connection:
    """Return a file as a connection, which is how it travels to another process."""
    return Connection(os.dup(output.fileno()), readable=False)


def _zygote(
    output: IO[bytes], plugin_dir: Path | None, threads: int, environment: tuple[tuple[str, str], ...]
) -> tuple[BaseProcess, Connection]:
    """Start a zygote; return it, and the connection that it is asked over."""
    context = server.start(threads)
    control, zygote_end = context.Pipe()
    with zygote_end, log_of(output) as log:
        attacks = context.Process(target=zygote.main, args=(zygote_end, log, plugin_dir, threads, environment))
        attacks.start()
    return attacks, control


@contextmanager
def isolated_attacks(setup: Setup) -> Iterator[IsolatedAttacks]:
    """Yield what runs attacks in processes of their own for a verb that does all else in its own process.

    All of these processes are gone when the block ends.
    """
    from bench.run.isolation.host import IsolatedAttacks

    limits = Limits.shared(1, None)
    with tempfile.TemporaryFile() as output:
        attacks, control = _zygote(output, setup.plugin_dir, limits.threads, setup.environment)
        with control:
            host = IsolatedAttacks(control, limits.memory)
        try:
            yield host
        finally:
            host.close()
            attacks.join(LEAVE_SECONDS)
            attacks.kill()


def _memory_of(process: BaseProcess) -> int:
    """Return the bytes of resident memory of a process, without those that it started, 0 if it is gone."""
    try:
        resident: int = psutil.Process(process.pid).memory_info().rss
    except psutil.Error:
        resident = 0
    return resident
