"""Standard output that takes any character, and whose failure is one line."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TextIO


def take_any_text() -> None:
    """Let stdout and stderr take any character; one that their encoding lacks stands as its Python escape.

    One that was closed before the program began takes all, and drops it.
    """
    sys.stdout, sys.stderr = (stream or _nowhere() for stream in (sys.stdout, sys.stderr))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def close() -> None:
    """Flush stdout. What cannot be written is dropped, so that Python's exit does not fail."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
