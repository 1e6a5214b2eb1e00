"""The console for tables, and text that is printed as it stands."""

from __future__ import annotations

from rich.console import Console

from bench.terminal.text import lines

LOG_WIDTH = 200
"""Columns of a table that is not printed on a terminal, where nobody widens the window."""


def printer() -> Console:
    """Return a console as wide as the terminal, or `LOG_WIDTH` where there is none."""
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, LOG_WIDTH)
    return console


def say(text: str, console: Console | None = None, style: str | None = None) -> None:
    """Print text as it stands, no line broken; what steers a terminal appears as Python escapes.

    Args:
        text: one line or several.
        console: where; None for stdout.
        style: of rich, such as "red".
    """
    (console or Console()).print(lines(text), style=style, highlight=False, markup=False, soft_wrap=True)
