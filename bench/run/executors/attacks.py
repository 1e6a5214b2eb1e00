"""Attacks in processes of their own for a verb that does all else in its own process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from bench.run.executors import server
from bench.run.executors.processes import LEAVE_SECONDS, Limits
from bench.run.isolation import zygote
from bench.run.isolation.host import IsolatedAttacks


@contextmanager
def isolated_attacks(plugin_dir: Path | None) -> Iterator[IsolatedAttacks]:
    """Yield a host that runs attacks in processes; all of them are gone when the block ends.

    Args:
        plugin_dir: folder of plug-ins.
    """
    limits = Limits.shared(1, None)
    context = server.start(limits.threads)
    control, zygote_end = context.Pipe()
    with tempfile.TemporaryFile() as output:
        log = Connection(os.dup(output.fileno()), readable=False)
        attacks = context.Process(target=zygote.main, args=(zygote_end, log, plugin_dir, limits.threads))
        attacks.start()
        host = IsolatedAttacks(control, limits.memory)
        for end in (control, zygote_end, log):
            end.close()
        try:
            yield host
        finally:
            host.close()
            attacks.join(LEAVE_SECONDS)
            attacks.kill()
