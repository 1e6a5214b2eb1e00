"""What a row says of what went wrong, and whose fault it was."""

from __future__ import annotations

from enum import StrEnum

from attacks.base import DivergedError
from bench.records import Status

NO_MEMORY = "can't allocate memory"
"""What torch says when the CPU's memory is at its end, in a plain RuntimeError."""


class AttackFailedError(Exception):
    """An attack whose process told how it failed, or did not live to tell.

    Attributes:
        status: diverged, timeout, oom or error.
        reason: one line.
        details: for the log.
    """

    def __init__(self, status: Status, reason: str, details: str = "") -> None:
        super().__init__(reason)
        self.status, self.reason, self.details = status, reason, details


class Fault(StrEnum):
    """Whose fault it was that scores could not be had."""

    METRIC = "metric"
    DISK = "disk"
    MEMORY = "memory"


def failure_status(error: BaseException) -> Status:
    """Return what a row says of an exception: diverged, out of memory, or else an error."""
    if isinstance(error, AttackFailedError):
        return error.status
    if isinstance(error, DivergedError):
        return Status.DIVERGED
    return Status.OOM if _exhausted(error) else Status.ERROR


def fault_of(error: BaseException) -> Fault:
    """Return whose fault an exception was that came while a run was scored."""
    if isinstance(error, OSError):
        return Fault.DISK
    return Fault.MEMORY if failure_status(error) is Status.OOM else Fault.METRIC


def _exhausted(error: BaseException) -> bool:
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    try:
        return NO_MEMORY in str(error)
    except Exception:  # its message cannot be had
        return False
