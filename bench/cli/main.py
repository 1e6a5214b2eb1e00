"""The command line, from its start to its exit status."""

from __future__ import annotations

import errno
import sys
from functools import cache
from typing import Any

from bench.terminal import interrupts, output
from bench.terminal.interrupts import INTERRUPTED

ENVIRONMENTAL = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE),
    *(errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP),
)
"""Errors of the system that are no fault of the program: they are told in one line, all others with a traceback."""


def main() -> None:
    """Run the command line; a user's mistake is one line on stderr and exit status 2, an interrupt exit status 130."""
    with interrupts.abrupt():
        output.take_any_text()
        status = _status()
        output.close()
    sys.exit(status)


def _status() -> int:
    """Run the verb that the command line names and return its exit status."""
    import typer

    from bench.cli.app import complain
    from victims.errors import UserError

    status = 2
    try:
        status = int(_verbs()(sys.argv[1:] or ["--help"], standalone_mode=False) or 0)
        sys.stdout.flush()
    except (UserError, typer.TyperException) as error:
        complain(f"bench: {_mistake(error)}")
    except BrokenPipeError:  # whoever read the output has seen enough
        return 1
    except OSError as error:
        if error.errno not in ENVIRONMENTAL:
            raise
        complain(f"bench: {error.filename or 'the output, or a file, cannot be written'}: {error.strerror}")
    if status == INTERRUPTED:  # what typer makes of a KeyboardInterrupt
        complain("bench: interrupted; finished runs are stored, and the same command makes the others")
    return status


@cache
def _verbs() -> Any:
    """Return all verbs as one command; who calls `main` again and again in one process has them made once."""
    from typer.main import get_command

    from bench.cli import executing, making, reading, verifying  # noqa: F401 where the verbs join, in this order of the help
    from bench.cli.app import app

    return get_command(app)


def _mistake(error: Exception) -> str:
    """Return what a user did wrong. Of a word that is unknown or missing it also says what lists the right ones."""
    import typer

    from bench.terminal.text import command

    if not isinstance(error, typer.TyperException):
        return str(error)
    text = error.format_message().replace(": Value error, ", ": ")  # typer says which kind of exception it caught
    context = getattr(error, "ctx", None)
    if context is None or (isinstance(error, typer.BadParameter) and error.message):
        return text
    verb = [context.info_name] if context.parent else []
    return f"{text.removesuffix('.')}; `{command(*verb, '--help')}` says what there is"
