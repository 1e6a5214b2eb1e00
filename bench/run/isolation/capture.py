"""Redirects the output of a process to the log of its run."""

from __future__ import annotations

import faulthandler
import os
import sys


def capture(log: int) -> None:
    """Redirect all output of this process to a file, and write a stack trace there if it crashes.

    Args:
        log: the file's descriptor.
    """
    for stream in (1, 2):
        os.dup2(log, stream)
    sys.stdout, sys.stderr = (
        open(stream, "w", buffering=1, closefd=False, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        for stream in (1, 2)
    )
    faulthandler.enable(file=2)
