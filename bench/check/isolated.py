"""The claims of a file, tried in a process of its own, which may crash or hang."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from bench.check.claims import ContractClaim
from bench.terminal.interrupts import withheld
from bench.terminal.offspring import drop_streams, kill_group, killed_with_parent, lead_group
from bench.terminal.text import describe, ending
from victims.errors import UserError

SILENT_SECONDS = 300.0
"""How long a process may work on one claim; the attacks that it tries are stopped much earlier."""
LEAVING_SECONDS = 5.0
SURVIVES = "lets the process that tries it go on"


def isolated_claims(path: Path, settings: dict[str, Any], data_dir: Path | None) -> Iterator[ContractClaim]:
    """Yield what `check_file` yields, and a claim that does not hold if its process ends early, or does not end.

    Raises:
        UserError: as `check_file`.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_tried, args=(sender, path, settings, data_dir))
    with withheld():
        process.start()
    sender.close()
    last = ""
    try:
        while wait([receiver, process.sentinel], SILENT_SECONDS):
            try:
                kind, content = receiver.recv()
            except (EOFError, OSError):
                yield ContractClaim(path.name, SURVIVES, f"{_end_of(process)}{last}")
                return
            if kind == "mistake":
                raise UserError(content)
            if kind == "end":
                return
            last = f", after the claim `{content.text}`"
            yield content
        yield ContractClaim(path.name, SURVIVES, f"nothing was heard of it for {SILENT_SECONDS:g} s{last}")
    finally:
        kill_group(process)
        process.join()
        receiver.close()


def _end_of(process: BaseProcess) -> str:
    process.join(LEAVING_SECONDS)
    code = process.exitcode
    if code is None:
        return "it has closed what it cannot do without"
    return f"it {'was killed' if code < 0 else 'left'} {ending(code)}"


def _tried(parent: Connection, path: Path, settings: dict[str, Any], data_dir: Path | None) -> None:
    """Send every claim of a file, then that it was the last; a user's mistake and a failure too. Output is dropped."""
    lead_group()
    killed_with_parent()  # by the kernel and no thread: with threads the import of a file is not rehearsed
    drop_streams()
    from bench.check import check_file

    try:
        for claim in check_file(path, settings, data_dir):
            parent.send(("claim", claim))
        parent.send(("end", None))
    except UserError as error:
        parent.send(("mistake", str(error)))
    except Exception as error:
        parent.send(("claim", ContractClaim(path.name, "can be tried out", describe(error))))
        parent.send(("end", None))
    os._exit(0)  # whatever is still running
