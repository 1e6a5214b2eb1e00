"""The zygote: it forks a process for each attack of a run, one at a time, and kills what the attack leaves behind.

It starts beside the process of the run and never holds what that one reads. A request is a socket for a new attack,
sent over the control socket. The zygote answers with the attack's process id and, when all that the attack started is
gone, with its exit code.
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

from bench.run.isolation.capture import capture
from bench.terminal.offspring import adopt_orphans, killed_first, killed_with_parent, lead_group

INTEGER = struct.Struct("!q")
POLL_SECONDS = 0.01
REAP_SECONDS = 5.0
OOM_SCORE = 900
"""The oom_score_adj of an attack: where memory runs out, the kernel kills it before what started it."""


def main(
    control: Connection,
    output: Connection,
    plugin_dir: Path | None,
    threads: int,
    environment: tuple[tuple[str, str], ...],
) -> None:
    """Fork an attack for every request, until the process of the run is gone.

    Args:
        control: where requests come from.
        output: the log of what attacks print.
        plugin_dir: folder of plug-ins.
        threads: of an attack.
        environment: variables of an attack, such as which GPU is its own.
    """
    capture(output.fileno())
    os.environ.update(environment)
    lead_group()
    adopt_orphans()  # what an attack leaves behind, in a session of its own, can be found and ended
    from bench.plan import registry

    registry.attacks()  # the suite's own are imported once, before any fork; a plug-in in the attack's process alone
    with socket.socket(fileno=os.dup(control.fileno())) as control_socket:
        while True:
            try:
                request, handles, _, _ = socket.recv_fds(control_socket, 1, 1)
            except OSError:
                return
            if not request:
                return
            _fork_attack(control_socket, handles[0], plugin_dir, threads)


def _fork_attack(control_socket: socket.socket, handle: int, plugin_dir: Path | None, threads: int) -> None:
    """Fork an attack that talks over `handle`, tell its process id, wait for its end, and tell its exit code."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            killed_with_parent()
            killed_first(OOM_SCORE)
            control_socket.detach()
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
        control_socket.sendall(INTEGER.pack(pid))
    code = _wait(pid, control_socket)
    _end_children()
    with suppress(OSError):
        control_socket.sendall(INTEGER.pack(code))


def _wait(pid: int, control_socket: socket.socket) -> int:
    """Return the exit code of a child. Kill it if the process of the run is gone."""
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if select.select([control_socket], [], [], POLL_SECONDS)[0]:
            os.kill(pid, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _end_children() -> None:
    """Kill every process that an attack left behind, its children's children too."""
    own = psutil.Process()
    while left := own.children(recursive=True):
        for child in left:
            with suppress(psutil.Error):
                child.kill()
        if psutil.wait_procs(left, timeout=REAP_SECONDS)[1]:
            return  # no signal ends some processes, such as one that waits for a disk


def _close_all_but(handle: int) -> None:
    """Close every inherited file descriptor but one."""
    os.closerange(3, handle)
    os.closerange(handle + 1, os.sysconf("SC_OPEN_MAX"))
