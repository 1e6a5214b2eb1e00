"""Attacks as the run's process sees them: it starts them, answers their queries, and ends those that take too much."""

from __future__ import annotations

import math
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from queue import Empty, Queue
from typing import TYPE_CHECKING

import psutil

from bench.run.attempt import Attacked, Attempt, Progress
from bench.run.failures import AttackFailedError, Failure, died_of, took_too_much
from bench.run.isolation.messages import GarbledError, Message, attacked_from, receive, send
from bench.run.isolation.zygote import INTEGER
from bench.store.records import FAILED, Status
from bench.terminal.text import describe, one_line

if TYPE_CHECKING:
    from torch import Tensor


POLL_SECONDS = 0.1
MEMORY_SECONDS = 1.0
"""How often memory is looked at: finding all that an attack started reads the whole of /proc."""
GRACE, LEAST_GRACE = 0.1, 10.0
"""How long an attack may go on after its budget before it is killed: a share of the budget, and the least seconds."""
DUMP_SECONDS = 2.0
"""How long a process that is killed for a hang has to write into its log where it was."""
STARTER_GONE = (Status.OOM, "the process that starts attacks was killed, as the system does when memory runs out")


@dataclass
class AttackProcess:
    """An attack at work in its process.

    Attributes:
        pid: of its process.
        connection: to it.
        deadline: when it is killed, on the clock of `time.monotonic`; None for never.
        killed: why it was killed, None if it was not.
        watched: when its time was last looked at, on that clock.
        measured: when its memory was.
        result: its last message: what it found, or how it failed.
        messages: its messages, and last of all why no more come.
        reader: the thread that puts them there.
    """

    pid: int
    connection: Connection
    deadline: float | None = None
    killed: tuple[Status, str] | None = None
    watched: float = -math.inf
    measured: float = -math.inf
    result: Message | None = None
    messages: Queue[Message | Exception] = field(default_factory=Queue)
    reader: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.reader = threading.Thread(target=_read, args=(self.connection, self.messages), daemon=True)

    def kill(self, status: Status, reason: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End its process; its row gets `status` and `reason`."""
        self.killed = self.killed or (status, reason)
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


class IsolatedAttacks:
    """Runs attacks, each in a process of its own.

    Args:
        control: to the zygote.
        memory: bytes of resident memory that an attack may take, with all that it starts.
    """

    def __init__(self, control: Connection, memory: int) -> None:
        self._control = socket.socket(fileno=os.dup(control.fileno()))
        self.memory = memory

    def attack(self, attempt: Attempt, answer: Callable[[Tensor], Tensor], progress: Progress) -> Attacked:
        """Return what an attack found.

        Args:
            attempt: what it is given.
            answer: what the victim answers to inputs (m, C, H, W).
            progress: told where it is; what it raises ends the attack.

        Raises:
            AttackFailedError: it failed, or its process was ended.
        """
        ours, theirs = socket.socketpair()
        connection = Connection(ours.detach())
        try:
            with theirs:
                socket.send_fds(self._control, [b"\0"], [theirs.fileno()])
            process = AttackProcess(self._receive_number(), connection)
        except OSError:
            connection.close()
            raise AttackFailedError(Failure(*STARTER_GONE)) from None
        try:
            with suppress(OSError):
                connection.send_bytes(pickle.dumps(attempt))
            self._follow(process, attempt, answer, progress)
        finally:
            code = self._end(process)
        return _outcome(process, code)

    def _end(self, process: AttackProcess) -> int:
        """End what is left of an attack, and return the exit code of its process."""
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        if process.reader.is_alive():
            process.reader.join(DUMP_SECONDS)  # a dead process sends nothing more, which ends the thread
        process.connection.close()
        try:
            return self._receive_number()
        except OSError:
            process.killed = process.killed or STARTER_GONE
            return 0

    def close(self) -> None:
        """Let the zygote end, as it does when this process ends."""
        self._control.close()

    def _receive_number(self) -> int:
        """Return the next number that the zygote sends.

        Raises:
            OSError: it is gone.
        """
        told = self._control.recv(INTEGER.size, socket.MSG_WAITALL)
        if len(told) < INTEGER.size:
            raise ConnectionResetError
        number: int = INTEGER.unpack(told)[0]
        return number

    def _follow(
        self, process: AttackProcess, attempt: Attempt, answer: Callable[[Tensor], Tensor], progress: Progress
    ) -> None:
        """Handle an attack's messages until it sends its result or its process is gone."""
        process.reader.start()
        while process.result is None:
            with suppress(Empty):
                message = process.messages.get(timeout=POLL_SECONDS)
                if isinstance(message, GarbledError):
                    process.kill(Status.ERROR, f"the attack's process sent what is no message ({message})")
                if isinstance(message, Exception):
                    return
                with suppress(BrokenPipeError):  # it does not wait for an answer
                    self._handle(process, attempt, message, answer, progress)
            if time.monotonic() >= process.watched + POLL_SECONDS:
                process.watched = time.monotonic()
                self._watch(process, attempt)

    def _handle(
        self,
        process: AttackProcess,
        attempt: Attempt,
        message: Message,
        answer: Callable[[Tensor], Tensor],
        progress: Progress,
    ) -> None:
        header, tensors = message
        what = header.get("what")
        if what == "begun" and attempt.budget.seconds is not None:
            process.deadline = (
                time.monotonic() + attempt.budget.seconds + max(LEAST_GRACE, GRACE * attempt.budget.seconds)
            )
        elif what == "progress":
            figures = {one_line(str(name)): float(value) for name, value in header["figures"].items()}
            progress(int(header["step"]), int(header["steps"]), **figures)
        elif what == "query":
            _reply(process.connection, tensors, answer)
        elif what in ("found", "failed"):
            process.result = message

    def _watch(self, process: AttackProcess, attempt: Attempt) -> None:
        """Kill an attack that is out of time or takes too much memory."""
        overdue = process.deadline is not None and time.monotonic() > process.deadline
        if overdue and process.killed is not None:
            process.kill(*process.killed)
        elif overdue:
            process.deadline = time.monotonic() + DUMP_SECONDS
            process.kill(
                Status.TIMEOUT, f"did not return when its budget of {attempt.budget} was spent", signal.SIGABRT
            )
        elif time.monotonic() >= process.measured + MEMORY_SECONDS:
            process.measured = time.monotonic()
            if (used := _memory_of_family(process.pid)) > self.memory:
                process.kill(*took_too_much(used, self.memory))


def _read(connection: Connection, messages: Queue[Message | Exception]) -> None:
    """Put the messages of a connection into a queue, and at last the exception that ended it.

    A thread of its own may wait for the rest of a message while another one watches the clock.
    """
    try:
        while True:
            messages.put(receive(connection))
    except (EOFError, OSError, GarbledError) as error:
        messages.put(error)


def _reply(connection: Connection, tensors: dict[str, Tensor], answer: Callable[[Tensor], Tensor]) -> None:
    try:
        answers = answer(tensors["queries"])
    except Exception as error:
        send(connection, {"trouble": describe(error)})
    else:
        send(connection, {}, {"answers": answers})


def _outcome(process: AttackProcess, code: int) -> Attacked:
    """Return what an attack found.

    Raises:
        AttackFailedError: it did not, or its process was killed before it told.
    """
    if process.result is not None:
        header, _ = process.result
        if header["what"] == "failed":
            status, reason, details = (str(header.get(name, "")) for name in ("status", "reason", "details"))
            known = Status(status) if status in FAILED else Status.ERROR  # no attack says of itself that it ended well
            raise AttackFailedError(Failure(known, one_line(reason), details))
        try:
            return attacked_from(process.result)
        except GarbledError as error:
            reason = f"the attack's process sent what is no message ({error})"
            raise AttackFailedError(Failure(Status.ERROR, reason)) from None
    if process.killed is not None:
        raise AttackFailedError(Failure(*process.killed))
    raise AttackFailedError(Failure(*died_of(code)))


def _memory_of_family(pid: int) -> int:
    """Return the bytes of resident memory of a process and all that it started, 0 if it is gone."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0
    resident = 0
    for member in family:
        with suppress(psutil.Error):
            resident += member.memory_info().rss
    return resident
