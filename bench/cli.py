"""The command line."""

from __future__ import annotations

import sys

import typer

from bench.verbs import executing, making, reading
from bench.verbs.app import app, complain
from victims.errors import UserError

INTERRUPTED = 130
VERBS = (executing, reading, making)
"""Where the verbs join the application, in this order of its help."""


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr and exit status 2, an interrupt exit status 130."""
    try:
        status = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except (UserError, typer.TyperException) as error:
        text = error.format_message() if isinstance(error, typer.TyperException) else str(error)
        complain(f"bench: {text}")
        status = 2
    if status == INTERRUPTED:  # what typer makes of a KeyboardInterrupt
        complain("bench: interrupted; finished runs are stored")
    sys.exit(status)
