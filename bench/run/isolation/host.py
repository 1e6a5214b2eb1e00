"""The side of the run's process: it has attacks made, answers their queries, and ends those that take too much."""

from __future__ import annotations

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
from bench.run.failures import AttackFailedError, Failure
from bench.run.isolation.messages import GarbledError, Message, attacked_from, receive, send
from bench.run.isolation.zygote import NUMBER
from bench.store.records import FAILED, Status
from bench.terminal.text import describe, one_line

if TYPE_CHECKING:
    from torch import Tensor


POLL_SECONDS = 0.1
GRACE, LEAST_GRACE = 0.1, 10.0
"""How long an attack may go on after its budget before it is killed: a share of the budget, and the least seconds."""
DUMP_SECONDS = 2.0
"""How long a process that is killed for a hang has to write into its log where it was."""
SERVER_GONE = 255
"""The exit code that is told of a process whose server was killed, and which may still run."""
STARTER_GONE = (Status.OOM, "the process that starts attacks was killed, as the system does when memory runs out")


@dataclass
class Made:
    """An attack that is being made.

    Attributes:
        pid: of its process.
        connection: to it.
        deadline: when it is killed, on the clock of `time.monotonic`; None for never.
        killed: why it was killed, None if it was not.
        watched: when its time and memory were last looked at, on that clock.
        told: its last message, of what it found or how it failed.
        said: its messages, and last of all why no more come.
        reader: the thread that puts them there.
    """

    pid: int
    connection: Connection
    deadline: float | None = None
    killed: tuple[Status, str] | None = None
    watched: float = 0.0
    told: Message | None = None
    said: Queue[Message | Exception] = field(default_factory=Queue)
    reader: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.reader = threading.Thread(target=_read, args=(self.connection, self.said), daemon=True)

    def kill(self, status: Status, reason: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End its process, which its row tells as `status` and `reason`."""
        self.killed = self.killed or (status, reason)
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


class Isolated:
    """Has attacks made, each in a process of its own.

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
            made = Made(self._number(), connection)
        except OSError:
            connection.close()
            raise AttackFailedError(Failure(*STARTER_GONE)) from None
        try:
            with suppress(OSError):
                connection.send_bytes(pickle.dumps(attempt))
            self._accompany(made, attempt, answer, progress)
        finally:
            code = self._ended(made)
        return _outcome(made, code)

    def _ended(self, made: Made) -> int:
        """End what is left of an attack, and return the exit code of its process."""
        with suppress(ProcessLookupError):
            os.kill(made.pid, signal.SIGKILL)
        if made.reader.is_alive():
            made.reader.join(DUMP_SECONDS)  # nothing comes from the dead, which ends it
        made.connection.close()
        try:
            return self._number()
        except OSError:
            made.killed = made.killed or STARTER_GONE
            return 0

    def close(self) -> None:
        """Let the zygote end, as it does when this process ends."""
        self._control.close()

    def _number(self) -> int:
        """Return the next number that the zygote sends.

        Raises:
            OSError: it is gone.
        """
        told = self._control.recv(NUMBER.size, socket.MSG_WAITALL)
        if len(told) < NUMBER.size:
            raise ConnectionResetError
        number: int = NUMBER.unpack(told)[0]
        return number

    def _accompany(self, made: Made, attempt: Attempt, answer: Callable[[Tensor], Tensor], progress: Progress) -> None:
        """Listen to an attack until it has told its end or is gone; the zygote then tells its exit code."""
        made.reader.start()
        while made.told is None:
            with suppress(Empty):
                message = made.said.get(timeout=POLL_SECONDS)
                if isinstance(message, GarbledError):
                    made.kill(Status.ERROR, f"the attack's process sent what is no message ({message})")
                if isinstance(message, Exception):
                    return
                with suppress(BrokenPipeError):  # it does not wait for an answer
                    self._heard(made, attempt, message, answer, progress)
            if time.monotonic() >= made.watched + POLL_SECONDS:
                made.watched = time.monotonic()
                self._watch(made, attempt)

    def _heard(
        self, made: Made, attempt: Attempt, message: Message, answer: Callable[[Tensor], Tensor], progress: Progress
    ) -> None:
        header, tensors = message
        what = header.get("what")
        if what == "begun" and attempt.budget.seconds is not None:
            made.deadline = time.monotonic() + attempt.budget.seconds + max(LEAST_GRACE, GRACE * attempt.budget.seconds)
        elif what == "progress":
            figures = {one_line(str(name)): float(value) for name, value in header["figures"].items()}
            progress(int(header["step"]), int(header["steps"]), **figures)
        elif what == "query":
            _reply(made.connection, tensors, answer)
        elif what in ("found", "failed"):
            made.told = message

    def _watch(self, made: Made, attempt: Attempt) -> None:
        """Kill an attack that is out of time or takes too much memory."""
        overdue = made.deadline is not None and time.monotonic() > made.deadline
        if overdue and made.killed is not None:
            made.kill(*made.killed)
        elif overdue:
            made.deadline = time.monotonic() + DUMP_SECONDS
            made.kill(Status.TIMEOUT, f"did not return when its budget of {attempt.budget} was spent", signal.SIGABRT)
        elif (used := _resident(made.pid)) > self.memory:
            sizes = f"{used / 2**30:.2g} GiB of memory, of the {self.memory / 2**30:.2g} that it may"
            made.kill(Status.OOM, f"took {sizes}")


def _read(connection: Connection, said: Queue[Message | Exception]) -> None:
    """Put what comes over a connection into a queue, and last of all why no more comes.

    A thread of its own may wait for the rest of a message while another one watches the clock.
    """
    try:
        while True:
            said.put(receive(connection))
    except (EOFError, OSError, GarbledError) as error:
        said.put(error)


def _reply(connection: Connection, tensors: dict[str, Tensor], answer: Callable[[Tensor], Tensor]) -> None:
    try:
        answers = answer(tensors["queries"])
    except Exception as error:
        send(connection, {"trouble": describe(error)})
    else:
        send(connection, {}, {"answers": answers})


def _outcome(made: Made, code: int) -> Attacked:
    """Return what an attack found.

    Raises:
        AttackFailedError: it did not, or its process was killed before it told.
    """
    if made.told is not None:
        header, _ = made.told
        if header["what"] == "failed":
            status, reason, details = (str(header.get(name, "")) for name in ("status", "reason", "details"))
            known = Status(status) if status in FAILED else Status.ERROR  # no attack says of itself that it ended well
            raise AttackFailedError(Failure(known, one_line(reason), details))
        try:
            return attacked_from(made.told)
        except GarbledError as error:
            reason = f"the attack's process sent what is no message ({error})"
            raise AttackFailedError(Failure(Status.ERROR, reason)) from None
    if made.killed is not None:
        raise AttackFailedError(Failure(*made.killed))
    raise AttackFailedError(Failure(*died_of(code)))


def died_of(code: int | None) -> tuple[Status, str]:
    """Return the status and the reason of a process that ended in the middle of its work with an exit code."""
    if code == SERVER_GONE:
        return Status.OOM, "the server that started the process was killed, as the system does when memory runs out"
    if code == -signal.SIGKILL:
        return Status.OOM, "the process was killed by SIGKILL, as the system does when memory runs out"
    if code is not None and code < 0:
        return Status.ERROR, f"the process was killed by {signal.Signals(-code).name}"
    return Status.ERROR, f"the process ended in the middle of the run, with exit status {code}"


def _resident(pid: int) -> int:
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
