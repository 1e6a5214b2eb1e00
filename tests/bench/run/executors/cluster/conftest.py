from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from machines import Machines, can_hide
from world import World, make_world


@dataclass(frozen=True)
class Apart(World):
    """A world whose data lie apart from the plug-ins, so that both have to travel."""

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {"BENCH_DATA_DIR": str(self.root / "data"), "RAY_AUTH_MODE": "disabled"}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Apart]:
    def make(more: str = "") -> Apart:
        root = tmp_path_factory.mktemp("world")
        make_world(root, more)
        (root / "data").mkdir()
        shutil.move(root / "plugins" / "mini.npz", root / "data")
        return Apart(root)

    return make


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Two nodes that share nothing with the driver or each other; tests add and remove some."""
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'reconstruction-bench[ray]'")
    if not can_hide():
        pytest.skip("this system gives no process mounts of its own (unshare --mount)")
    if Path(sys.prefix).resolve().is_relative_to("/tmp"):
        pytest.skip("the interpreter lies in /tmp, where every node sees a folder of its own")
    root = tmp_path_factory.mktemp("machines")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cluster = Machines(root, hidden=(Path(root),))
    try:
        cluster.begin(port)
        for _ in range(2):
            cluster.add()
        cluster.wait()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def three(machines: Machines) -> Machines:
    """Three such nodes."""
    for _ in range(3 - len(machines.living())):
        machines.add()
    machines.wait()
    return machines
