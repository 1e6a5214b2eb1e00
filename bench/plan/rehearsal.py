"""Rehearses the import of plug-ins in a process of its own, before this one imports them.

A file that ends that process, or does not end, is not imported here, nor in the processes that this one starts: they
find the verdict in their environment. The process is a fork, which takes milliseconds and is safe as long as this one
has neither torch nor threads; later, and in a library, a file is imported without a rehearsal.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from bench.terminal.interrupts import HEARD
from bench.terminal.offspring import drop_streams, end_with_parent, kill_group, lead_group
from bench.terminal.text import describe, ending

LIMIT_SECONDS = 60.0
"""What the import of one file may take; that of torch takes a second or two."""
VERDICTS = "BENCH_NOT_IMPORTABLE"
"""The variable that tells processes started by this one which files do not import: JSON, reasons by file."""

_tried: set[str] = set()


def not_importable(loads: Mapping[str, Callable[[], Any]]) -> dict[str, str]:
    """Return the files whose import fails, and why.

    Args:
        loads: what imports each of them, by where it comes from.
    """
    verdicts: dict[str, str] = json.loads(os.environ.get(VERDICTS, "{}"))
    left = {origin: load for origin, load in loads.items() if origin not in _tried | verdicts.keys()}
    if "torch" not in sys.modules and threading.active_count() == 1:
        _tried.update(left)
        while left:
            heard, trouble = _rehearse(left)
            verdicts |= {origin: reason for origin, reason in heard.items() if reason}
            left = {origin: load for origin, load in left.items() if origin not in heard}
            if left:
                culprit = next(iter(left))
                verdicts[culprit] = trouble
                del left[culprit]
        if verdicts:
            os.environ[VERDICTS] = json.dumps(verdicts)
    return {origin: reason for origin, reason in verdicts.items() if origin in loads}


def _rehearse(loads: Mapping[str, Callable[[], Any]]) -> tuple[dict[str, str], str]:
    """Import files one after the other in a child; return its report on each, and how it died."""
    context = multiprocessing.get_context("fork")
    reports, sender = context.Pipe(duplex=False)
    child = context.Process(target=_perform, args=(loads, sender))
    child.start()
    sender.close()
    reasons: dict[str, str] = {}
    silent = False
    try:
        with reports, suppress(EOFError):
            for origin in loads:
                silent = not wait([reports, child.sentinel], LIMIT_SECONDS)
                if not reports.poll():
                    break
                reasons[origin] = reports.recv()
    finally:
        kill_group(child)
        child.join()
    if silent:
        return reasons, f"its import takes more than {LIMIT_SECONDS:g} s; if this machine is busy, try again later"
    return reasons, f"its import ends the process {ending(child.exitcode or 0)}"


def _perform(loads: Mapping[str, Callable[[], Any]], sender: Connection) -> None:
    """Import files, report on each, and exit; exit at once if the parent dies."""
    lead_group()
    for number in HEARD:
        signal.signal(number, signal.SIG_DFL)
    drop_streams()
    end_with_parent()
    try:
        for load in loads.values():
            sender.send(_trouble(load))
    finally:
        os._exit(0)


def _trouble(load: Callable[[], Any]) -> str:
    """Return how an import ends the process; an ordinary error is left to the import proper."""
    try:
        load()
    except (Exception, SystemExit):
        return ""
    except BaseException as error:
        return describe(error)
    return ""
