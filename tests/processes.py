"""The command line in a process of its own: what it is asked for, and what it finds around it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """A cache in a folder, one thread, no download, and nothing of the user's but what `more` names."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
    own = {"BENCH_CACHE_DIR": str(folder / "cache"), "BENCH_LPIPS_WEIGHTS": "absent.pth"}
    return given | own | {"OMP_NUM_THREADS": "1", "COLUMNS": "250"} | more


def bench_run(plugins: Path, results: Path, *words: object) -> list[str]:
    folders = ["--plugin-dir", str(plugins), "--results-dir", str(results), "--device", "cpu"]
    return [sys.executable, "-m", "bench", "run", *map(str, words), *folders]


def main() -> None:
    """The command line."""
    from bench.cli import main as cli

    cli.main()


def server_state() -> dict[str, object]:
    """What a process has to know of the server that this one has started."""
    names = ("_forkserver_address", "_forkserver_authkey")
    return {name: value for name, value in vars(forkserver._forkserver).items() if name in names}


def with_server(state: dict[str, object], task: Callable[[], None]) -> None:
    """Do a task in a process that has no server of its own: what it starts is forked by the one it was forked by."""
    vars(forkserver._forkserver).update(state, ensure_running=lambda: None)
    forkserver.ensure_running = forkserver._forkserver.ensure_running
    task()


def carry_out(given: dict[str, str], words: list[str], out: Path, err: Path, task: Callable[[], None]) -> None:
    """Do a task in this process, with a command line, an environment and files for what it prints."""
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    os.environ.clear()
    os.environ.update(given)
    os.chdir(ROOT)
    sys.argv = ["bench", *words]
    task()


@dataclass(frozen=True)
class Forked:
    """A process that was forked from one that had imported torch, much as `subprocess.Popen`; it prints into files."""

    process: BaseProcess
    out: Path
    err: Path

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.exitcode

    @property
    def printed(self) -> str:
        """What it has printed, as far as it has come."""
        return self.out.read_text() if self.out.exists() else ""

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()

    def communicate(self) -> tuple[str, str]:
        """Wait for its end, and return what it has printed."""
        self.process.join()
        return self.printed, self.err.read_text() if self.err.exists() else ""
