"""How processes that this program starts end: with their parent, and with all that they have started themselves."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def end_with_parent() -> None:
    """Let this process, which leads its group, end with its group as soon as its parent is gone."""
    threading.Thread(target=_wait_and_end, daemon=True).start()


def killed_with_parent() -> None:
    """Let the kernel kill this process when its parent is gone, without a thread, where the system is Linux."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Let what a descendant leaves behind become a child of this process, where the system is Linux."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _wait_and_end() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.killpg(0, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)
