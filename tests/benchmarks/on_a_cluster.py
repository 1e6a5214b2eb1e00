"""What a Ray cluster of this machine takes besides its runs: processor time, time on the clock, and bytes moved.

    python tests/benchmarks/on_a_cluster.py 100 10 2

makes 100 runs of an attack that computes for 10 s of processor time, two at a time. The time of the runs is that of the
processes that are forked for them, each with its scoring. All else is besides: the driver, Ray's own processes, its
workers, and the libraries that each worker loads once. On the clock, it is the share of the time of all places in which
no process of a run was there; on a busy machine that measures the others, too.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

TESTS = Path(__file__).parents[1]
# the repository first: tests/ has a folder `bench`, too
sys.path[:0] = [str(TESTS.parent), str(TESTS), str(TESTS / "bench" / "run" / "executors")]
from world import make_world  # noqa: E402

from bench.terminal.console import say  # noqa: E402

BUSY = """
class Busy(Plain):
    name = "busy"
    summary = "computes for as many seconds of processor time as it is told steps"

    def reconstruct(self, view, ctx):
        import torch

        factor, began = torch.full((100, 100), 0.01), time.process_time()
        while time.process_time() - began < self.params.steps:
            factor @ factor
            ctx.report(0, 1)
        return super().reconstruct(view, ctx)
"""
LINE = re.compile(r"on the cluster (\d+) runs took (\d+) s of its nodes in (\d+) s; ([\d.]+) MiB of files moved")
LOOK_SECONDS = 0.5
FORK_SERVER = "multiprocessing.forkserver"


@dataclass
class Times:
    """Seconds of processor time of a driver and all that it starts, by what they are for.

    Attributes:
        runs: of the processes of runs, by the server that forked them.
        besides: of each other process, by its id.
        names: what each of those is.
    """

    runs: dict[int, float] = field(default_factory=dict)
    besides: dict[int, float] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def look(self, driver: psutil.Process) -> None:
        """Take the times of what is there now; a process counts with what it had when it was last seen."""
        lines = {}
        for process in (driver, *driver.children(recursive=True)):
            with suppress(psutil.Error):
                lines[process] = " ".join(process.cmdline())  # empty of what has died
        servers = {process.pid for process, line in lines.items() if FORK_SERVER in line}
        for process, line in lines.items():
            with suppress(psutil.Error):
                if not line or process.ppid() in servers:
                    continue  # the server counts the processes of runs, and what those have started
                times = process.cpu_times()
                self.besides[process.pid] = times.user + times.system
                self.names[process.pid] = "driver" if process == driver else _kind(line)
                if process.pid in servers:
                    self.runs[process.pid] = times.children_user + times.children_system

    def by_kind(self) -> dict[str, float]:
        """Return the seconds besides runs by what takes them, the most first."""
        kinds: dict[str, float] = defaultdict(float)
        for pid, seconds in self.besides.items():
            kinds[self.names[pid]] += seconds
        return dict(sorted(kinds.items(), key=lambda item: -item[1]))


def _kind(line: str) -> str:
    kinds = {
        FORK_SERVER: "libraries that runs are forked with",
        r"^\S*/raylet ": "Ray's scheduler and object store",
        r"^ray::\w*Agent|dashboard": "the rest of Ray",
        r"^ray::|default_worker\.py": "workers",
        r"^\S*/gcs_server ": "Ray's directory",
    }
    return next((kind for pattern, kind in kinds.items() if re.search(pattern, line)), "the rest of Ray")


def main(runs: int, seconds: int, places: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world, times = make_world(Path(folder), BUSY), Times()
        plan = ("-a", "busy", "-v", "mini-mlp-4", "--controls", "quick", "--seeds", f"0-{runs - 1}")
        running = world.start(*plan, "--set", f"steps={seconds}", "--executor", "ray", "--jobs", places)
        driver = psutil.Process(running.pid)
        while running.poll() is None:
            with suppress(psutil.NoSuchProcess):
                times.look(driver)
            time.sleep(LOOK_SECONDS)
        out, err = running.communicate()
        found = LINE.search(out)
        assert running.returncode == 0 and found, out + err
        ended, busy, took, moved = map(float, found.groups())
    computed, besides = sum(times.runs.values()), sum(times.besides.values())
    say(f"{ended:.0f} runs: {computed:.0f} s of processor time, {besides:.0f} s besides: {besides / computed:.1%}")
    for kind, spent in times.by_kind().items():
        say(f"  {kind}: {spent:.1f} s, {spent / computed:.2%}")
    clock = 1 - busy / (places * took)
    say(f"on the clock {took:.0f} s in {places} places, of which no run had {clock:.1%}; {moved:.1f} MiB moved")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
