"""Processes that this program starts: how they begin, and how they end with their parent and all that they started."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def lead_group() -> None:
    """Let this process lead a group, with which all that it starts is ended, and leave no core file if it crashes.

    Ctrl-C in a terminal then reaches its parent alone.
    """
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def kill_group(process: BaseProcess) -> None:
    """Kill a process that was started here and is to lead a group, and all that it started."""
    assert process.pid is not None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has not come to lead a group yet, or is gone
        process.kill()


def drop_streams() -> None:
    """Let this process and what it starts read nothing from their input, and drop what they print."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)


def killed_first(score: int) -> None:
    """Ask the kernel to kill this process before its parent where memory runs out (Linux).

    Args:
        score: its oom_score_adj, up to 1000; the highest is killed first.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(score), encoding="utf-8")


def end_with_parent() -> None:
    """Watch the parent in a thread; when it is gone, end this process and its group, which it leads."""
    threading.Thread(target=_wait_and_end, daemon=True).start()


def killed_with_parent() -> None:
    """Ask the kernel to kill this process when its parent is gone (Linux)."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Make orphans among the descendants children of this process (Linux)."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _wait_and_end() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.killpg(0, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)
