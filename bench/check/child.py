"""The process that tries a file: it sends its claims to the parent; its output is dropped."""

from __future__ import annotations

import os
import resource
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.check.claims import Claim
from bench.run.isolation.offspring import killed_with_parent
from bench.terminal.text import describe
from victims.errors import UserError


def main(parent: Connection, path: Path, settings: dict[str, Any], data_dir: Path | None) -> None:
    """Send every claim of a file, then that it was the last; a user's mistake and a failure are sent, too."""
    os.setsid()  # so that what it starts can be ended with it
    killed_with_parent()  # by the kernel and no thread: with threads the import of a file is not rehearsed
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    from bench.check import check_file

    try:
        for claim in check_file(path, settings, data_dir):
            parent.send(("claim", claim))
        parent.send(("end", None))
    except UserError as error:
        parent.send(("mistake", str(error)))
    except Exception as error:
        parent.send(("claim", Claim(path.name, "can be tried out", describe(error))))
        parent.send(("end", None))
    os._exit(0)  # whatever is still running
