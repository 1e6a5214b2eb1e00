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
START_SECONDS = 1800.0
PATIENT = {
    "RAY_AUTH_MODE": "disabled",
    "OMP_NUM_THREADS": "1",
    "RAY_worker_niceness": "0",
    "RAY_health_check_timeout_ms": "600000",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_prestart_worker_first_driver": "0",
}
"""A busy machine is no dead one: what answers slowly is waited for, what is gone refuses connections at once.

Workers that are started beforehand have not the source of the driver, and do nothing.
"""
UP = "now block"
"""What `ray start --block` prints when its node is ready."""
COMMON = ("--block", "--disable-usage-stats", "--include-log-monitor=false", f"--object-store-memory={STORE_BYTES}")
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
    """A node: how it is started, the folder that it sees as /tmp, and whether that is a disk of its own."""

    command: list[str]
    log: Path
    tmp: Path
    mounted: bool = False
    failed: bool = False
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        with self.log.open("wb") as log:
            environment = os.environ | PATIENT
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, start_new_session=True, env=environment
            )

    @property
    def up(self) -> bool:
        return self.process.poll() is None and UP in self.log.read_text()

    def wait(self) -> None:
        """Wait until it is ready; Ray gives up after half a minute, and a busy machine takes longer."""
        until = time.monotonic() + START_SECONDS
        while not self.up:
            assert time.monotonic() < until, self.log.read_text()
            if self.process.poll() is not None:
                self.start()
            time.sleep(0.2)

    def fail(self) -> None:
        """Die as a machine does: all processes at once."""
        self.failed = True
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
    _head: Machine | None = None

    def begin(self, port: int) -> None:
        """Start the head."""
        from ray._private import services

        options = ("--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false", "--no-monitor")
        self._head = Machine(ray("start", *options, *COMMON), self.root / "head.log", self.root)
        self.address = f"{services.get_node_ip_address()}:{port}"
        self._head.wait()  # it answers before it is ready

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
        folders = tmp / "home" / "folders"
        folders.mkdir(parents=True)
        if torch:
            (folders / f"torch-{torch}.dist-info").mkdir()
            (folders / f"torch-{torch}.dist-info" / "METADATA").write_text(f"Name: torch\nVersion: {torch}\n")
        start = ray("start", f"--address={self.address}", "--num-cpus=1", *COMMON)
        gone = [*(ROOT / name for name in HIDDEN), *lacks]
        script = [
            "set -e",
            *(f"mount -t tmpfs none {shlex.quote(str(path))}" for path in gone),
            f"mount --bind {shlex.quote(str(tmp))} /tmp",
            *(f"[ ! -e {shlex.quote(str(path))} ]" for path in (*self.hidden, ROOT / "bench" / "__init__.py")),
            "cd /tmp/home; export HOME=/tmp/home TMPDIR=/tmp PYTHONPATH=/tmp/home/folders",
            "unset BENCH_CACHE_DIR BENCH_DATA_DIR",
            f"exec {shlex.join(start)}",
        ]
        command = [*UNSHARE, "sh", "-c", "\n".join(script)]
        machine = Machine(command, self.root / f"{name}.log", tmp, disk is not None)
        self.nodes.append(machine)
        return machine

    def living(self) -> list[Machine]:
        """Return the nodes that have not failed."""
        return [one for one in self.nodes if not one.failed]

    def wait(self) -> None:
        """Wait until all nodes that have not failed can take runs."""
        for machine in self.living():
            machine.wait()

    def end(self) -> None:
        """End all processes of the cluster."""
        for machine in (*self.nodes, *filter(None, [self._head])):
            machine.fail()
