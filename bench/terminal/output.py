"""What the program prints: it can be written whatever the terminal's encoding, and what cannot be is one line."""

from __future__ import annotations

import io
import os
import sys


def take_any_text() -> None:
    """Let stdout and stderr take any character; one that their encoding lacks stands as its Python escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def close() -> None:
    """Write what stdout still holds; what it does not take is forgotten, and no failure when Python ends."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
