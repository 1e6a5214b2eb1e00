"""What a process prints goes to the log of its run."""

from __future__ import annotations

import faulthandler
import os
import sys


def capture(log: int) -> None:
    """Let everything that this process prints, by whatever means, go to a file, and a crash say there where it was.

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
