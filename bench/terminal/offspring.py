"""Ends processes with their parent, and with all processes that they started themselves."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


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
