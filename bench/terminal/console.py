"""The console for tables."""

from __future__ import annotations

from rich.console import Console

LOG_WIDTH = 200
"""Columns of a table that is not printed on a terminal, where nobody widens the window."""


def printer() -> Console:
    """Return a console as wide as the terminal, or `LOG_WIDTH` where there is none."""
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, LOG_WIDTH)
    return console
