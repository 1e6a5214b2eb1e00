"""Failures as rows record them, and whose fault they are."""

from __future__ import annotations

import signal
import traceback
from dataclasses import dataclass
from enum import StrEnum

from attacks.base import DivergedError
from bench.store.records import Status
from bench.terminal.text import describe, ending

NO_MEMORY = "can't allocate memory"
"""What torch says when the CPU's memory is at its end, in a plain RuntimeError."""
MOST_DETAILS = 100_000
"""Characters of a traceback that a log keeps: an exception's message may be of any length."""
SERVER_GONE = 255
"""The exit code that Python reports of a process whose fork server was killed; the process itself may still run."""


@dataclass(frozen=True)
class Failure:
    """How a run failed.

    Attributes:
        status: diverged, timeout, oom or error.
        reason: one line.
        details: for the log.
        nulls: whether the null controls of its victim are computed.
    """

    status: Status
    reason: str
    details: str = ""
    nulls: bool = True


class AttackFailedError(Exception):
    """An attack failed in its own process, or its process died.

    Attributes:
        failure: how.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


class Fault(StrEnum):
    """The cause of missing scores."""

    METRIC = "metric"
    DISK = "disk"
    MEMORY = "memory"


def failure_of(error: BaseException) -> Failure:
    """Return the failure that an exception of an attack is: diverged, out of memory, or else an error."""
    if isinstance(error, AttackFailedError):
        return error.failure
    details = "".join(traceback.format_exception(error))[:MOST_DETAILS]
    if isinstance(error, DivergedError):
        return Failure(Status.DIVERGED, describe(error), details)
    return Failure(Status.OOM if _exhausted(error) else Status.ERROR, describe(error), details)


def died_of(code: int | None) -> tuple[Status, str]:
    """Return status and reason for a process that ended in the middle of its work, by its exit code."""
    if code == SERVER_GONE:
        return Status.OOM, "the server that started the process was killed, as the system does when memory runs out"
    if code == -signal.SIGKILL:
        return Status.OOM, "the process was killed by SIGKILL, as the system does when memory runs out"
    if code is not None and code < 0:
        return Status.ERROR, f"the process was killed {ending(code)}"
    return Status.ERROR, f"the process ended in the middle of the run, with exit status {code}"


def took_too_much(used: int, allowed: int) -> tuple[Status, str]:
    """Return status and reason for a process that is killed because it takes more bytes of memory than allowed."""
    return Status.OOM, f"took {used / 2**30:.2g} GiB of memory, of the {allowed / 2**30:.2g} that it may"


def fault_of(error: BaseException) -> Fault:
    """Return what an exception that came while a run was scored is due to: the disk, the memory, or else a metric."""
    if isinstance(error, OSError):
        return Fault.DISK
    return Fault.MEMORY if failure_of(error).status is Status.OOM else Fault.METRIC


def scores_reason(error: BaseException) -> str:
    """Return the column `scores_reason` for an exception that came while a run was scored: fault and description."""
    return f"{fault_of(error)}: {describe(error)}"


def _exhausted(error: BaseException) -> bool:
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    try:
        return NO_MEMORY in str(error)
    except Exception:  # its message cannot be had
        return False
