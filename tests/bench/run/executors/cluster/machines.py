"""A Ray cluster of machines that share nothing: each node has a mount namespace, a /tmp and a HOME of its own.

The folders of the suite and of the test do not exist for a node; its /tmp is a folder that the test can look into.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from processes import ROOT

STORE_BYTES = 80_000_000
START_SECONDS = 60.0
HIDDEN = ("bench", "attacks", "victims", "tests", "results")
UNSHARE = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]


def can_hide() -> bool:
    """Say whether this system lets a process have mounts of its own."""
    if shutil.which("unshare") is None:
        return False
    command = [*UNSHARE, "mount", "-t", "tmpfs", "none", "/tmp"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def ray(*words: object) -> list[str]:
    return [sys.executable, "-m", "ray.scripts.scripts", *map(str, words)]


@dataclass
class Machine:
    """A node: its processes, the folder that it sees as /tmp, and whether that is a disk of its own."""

    process: subprocess.Popen[bytes]
    tmp: Path
    mounted: bool = False

    def fail(self) -> None:
        """Die as a machine does: all processes at once."""
        for one in self._family():
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self.process.wait()
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.tmp)], check=False)
            self.mounted = False

    def _family(self) -> list[psutil.Process]:
        try:
            leader = psutil.Process(self.process.pid)
            return [leader, *leader.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


@dataclass
class Machines:
    """A cluster: a head that takes no runs, where the driver is, and nodes below a folder."""

    root: Path
    hidden: tuple[Path, ...]
    address: str = ""
    nodes: list[Machine] = field(default_factory=list)
    _head: subprocess.Popen[bytes] | None = None

    def begin(self, port: int) -> None:
        """Start the head."""
        from ray._private import services

        options = ("--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false")
        self._head = self._start(ray("start", *options, *self._common()), "head")
        host = services.get_node_ip_address()
        self.address = f"{host}:{port}"
        until = time.monotonic() + START_SECONDS
        while "now block" not in self._logs():  # it answers before it is ready
            assert time.monotonic() < until, self._logs()
            time.sleep(0.2)

    def add(self, lacks: Sequence[Path] = (), disk: int | None = None, torch: str = "") -> Machine:
        """Start a node of one processor, and return it at once.

        Args:
            lacks: folders that are empty for it, beside those of the suite.
            disk: bytes of its /tmp, which takes a user who may mount; None for those of the disk.
            torch: version of torch that it says it has; empty for that which it has.
        """
        name = f"node{len(self.nodes)}"
        tmp = self.root / name
        tmp.mkdir()
        if disk is not None:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk}", "none", str(tmp)], check=True)
        site = tmp / "home" / "site"
        site.mkdir(parents=True)
        if torch:
            (site / f"torch-{torch}.dist-info").mkdir()
            (site / f"torch-{torch}.dist-info" / "METADATA").write_text(f"Name: torch\nVersion: {torch}\n")
        start = ray("start", f"--address={self.address}", "--num-cpus=1", *self._common())
        gone = [*(ROOT / name for name in HIDDEN), *lacks]
        script = [
            "set -e",
            *(f"mount -t tmpfs none {shlex.quote(str(path))}" for path in gone),
            f"mount --bind {shlex.quote(str(tmp))} /tmp",
            *(f"[ ! -e {shlex.quote(str(path))} ]" for path in (*self.hidden, ROOT / "bench" / "__init__.py")),
            "cd /tmp/home; export HOME=/tmp/home TMPDIR=/tmp PYTHONPATH=/tmp/home/site",
            "unset BENCH_CACHE_DIR BENCH_DATA_DIR",
            f"exec {shlex.join(start)}",
        ]
        machine = Machine(self._start([*UNSHARE, "sh", "-c", "\n".join(script)], name), tmp, disk is not None)
        self.nodes.append(machine)
        return machine

    def wait(self, nodes: int) -> None:
        """Wait until so many nodes can take runs."""
        until = time.monotonic() + START_SECONDS
        while (there := len(self._sockets())) < nodes:
            assert time.monotonic() < until, f"{there} of {nodes} nodes came: {self._logs()}"
            time.sleep(0.2)

    def end(self) -> None:
        """End all processes of the cluster."""
        for machine in self.nodes:
            machine.fail()
        if self._head is not None:
            Machine(self._head, self.root).fail()

    def _sockets(self) -> list[Path]:
        return [
            path for one in self.nodes if one.process.poll() is None for path in one.tmp.glob("ray/*/sockets/raylet")
        ]

    def _common(self) -> list[str]:
        return ["--block", "--disable-usage-stats", f"--object-store-memory={STORE_BYTES}"]

    def _start(self, command: list[str], name: str) -> subprocess.Popen[bytes]:
        with (self.root / f"{name}.log").open("wb") as log:
            environment = os.environ | {"RAY_AUTH_MODE": "disabled", "OMP_NUM_THREADS": "1", "RAY_worker_niceness": "0"}
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)

    def _logs(self) -> str:
        return "\n".join(path.read_text()[-500:] for path in self.root.glob("*.log"))
