"""Ctrl-C and SIGTERM end the process at once until the work begins, and are a KeyboardInterrupt from then on.

Libraries that are interrupted while they are imported print tracebacks of their own, or stay half imported.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from types import FrameType

INTERRUPTED = 130
"""The exit status of what was interrupted."""
HEARD = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
"""The signals that interrupt, with their usual handlers. One that has another is left alone: it is ignored, as Ctrl-C
is in a background job, or somebody else's."""
NOTHING_YET = b"bench: interrupted; nothing had begun\n"


@contextmanager
def abrupt() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the process at once in the block, until `work_begins` is called in it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in HEARD}
    for number, usual in HEARD.items():
        if before[number] is usual:
            signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def work_begins() -> None:
    """Let Ctrl-C and SIGTERM be a KeyboardInterrupt: from here on there are files to be left in order."""
    for number in HEARD:
        if signal.getsignal(number) is _leave:
            signal.signal(number, signal.default_int_handler)


@contextmanager
def withheld() -> Iterator[None]:
    """Let processes that are started in the block never hear Ctrl-C; this one hears it when the block ends."""
    resource_tracker.ensure_running()  # whose start would let it through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _leave(number: int, frame: FrameType | None) -> None:
    """End the process, and what it has started: a server that would go on importing for seconds."""
    os.write(2, NOTHING_YET)
    with suppress(OSError):
        for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8").split():
            os.kill(int(child), signal.SIGTERM)
    os._exit(INTERRUPTED)
