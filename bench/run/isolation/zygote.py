"""The process that forks the processes of a run's attacks, one at a time, and sees that nothing of them is left.

It is started beside the process of the run and never holds what that one reads. An attack that is to be made is a
socket for it, sent over the control socket; the answers are the attack's process id and, when all that it started is
gone, its exit code.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from bench.run.executors.capture import capture
from bench.run.isolation.offspring import adopt_orphans, killed_with_parent

NUMBER = struct.Struct("!q")
POLL_SECONDS = 0.01
REAP_SECONDS = 5.0
OOM_SCORE = 900
"""Of an attack, in the kernel's eyes: where memory runs out it dies before what started it."""


def main(control: Connection, output: Connection, plugin_dir: Path | None, threads: int) -> None:
    """Fork an attack for every request, until who asks is gone.

    Args:
        control: where requests come from.
        output: the log of what attacks print.
        plugin_dir: folder of plug-ins.
        threads: of an attack.
    """
    capture(output.fileno())
    os.setsid()
    adopt_orphans()  # what an attack leaves behind, in a session of its own, can be found and ended
    from bench.plan import registry

    registry.attacks()  # the suite's own are imported once, before any fork; a plug-in in the attack's process alone
    with socket.socket(fileno=os.dup(control.fileno())) as asking:
        while True:
            try:
                request, handles, _, _ = socket.recv_fds(asking, 1, 1)
            except OSError:
                return
            if not request:
                return
            _made(asking, handles[0], plugin_dir, threads)


def _made(asking: socket.socket, handle: int, plugin_dir: Path | None, threads: int) -> None:
    """Fork an attack that talks over `handle`, tell its process id, wait for its end, and tell its exit code."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            killed_with_parent()
            score = Path("/proc/self/oom_score_adj")
            with suppress(OSError):
                score.write_text(str(OOM_SCORE))
            asking.detach()
            _close_all_but(handle)
            from bench.run.isolation.attacker import attack

            attack(Connection(handle), plugin_dir, threads)
            status = 0
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)
    os.close(handle)
    with suppress(OSError):  # who asked is gone; the wait sees it
        asking.sendall(NUMBER.pack(pid))
    code = _waited(pid, asking)
    _end_children()
    with suppress(OSError):
        asking.sendall(NUMBER.pack(code))


def _waited(pid: int, asking: socket.socket) -> int:
    """Return the exit code of a child; kill it if who asked is gone, from whom nothing comes while it runs."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if select.select([asking], [], [], POLL_SECONDS)[0]:
            os.kill(pid, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _end_children() -> None:
    """Kill all that an attack has started, by whatever detours, and that still runs."""
    own = psutil.Process()
    while left := own.children(recursive=True):
        for child in left:
            with suppress(psutil.Error):
                child.kill()
        if psutil.wait_procs(left, timeout=REAP_SECONDS)[1]:
            return  # what no signal ends, such as a process that waits for a disk


def _close_all_but(handle: int) -> None:
    """Close what this process inherited: sockets and pipes of its forebears are no business of an attack."""
    os.closerange(3, handle)
    os.closerange(handle + 1, os.sysconf("SC_OPEN_MAX"))
