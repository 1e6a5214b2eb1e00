"""The side effects of a call: printed text, written files, time."""

from __future__ import annotations

import io
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree"}
"""Events of Python's audit hooks that change files, beside "open"."""


@dataclass
class SideEffects:
    """The side effects of a call.

    Attributes:
        printed: on stdout and stderr; warnings are not shown.
        written: files and folders that it opened for writing, made, moved or removed.
        seconds: how long it took.
    """

    printed: str = ""
    written: list[str] = field(default_factory=list)
    seconds: float = 0.0


_watching: list[SideEffects] = []
_hooked: list[bool] = []


@contextmanager
def watched(limit: float) -> Iterator[SideEffects]:
    """Yield the side effects of the block, filled in when it ends.

    Args:
        limit: seconds after which a TimeoutError is raised in it.
    """
    if not _hooked:
        tempfile.gettempdir()  # looks for a folder by writing into it, once a process
        sys.addaudithook(_hear)  # it cannot be removed again, and hears nothing while nobody is watched
        _hooked.append(True)
    effects, output, start = SideEffects(), io.StringIO(), time.monotonic()
    try:
        with warnings.catch_warnings(), redirect_stdout(output), redirect_stderr(output), _limited(limit):
            warnings.simplefilter("ignore")
            _watching.append(effects)
            yield effects
    finally:
        _watching.remove(effects)
        effects.printed, effects.seconds = output.getvalue(), time.monotonic() - start


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event == "open":
        path, mode, flags = arguments
        writes = bool(flags & WRITING) or (isinstance(mode, str) and bool(set(mode) & set("wax+")))
    else:
        path, writes = arguments[0] if arguments else "", event in CHANGES
    if writes and isinstance(path, str | bytes | os.PathLike):
        name = os.fsdecode(path)
        if "__pycache__" not in name and name != os.devnull:  # Python itself writes what it compiles
            _watching[-1].written.append(name)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after some seconds."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"it takes more than {seconds:g} s on a few images")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
