"""Two sweeps on one folder, any process of which is killed at any moment while the clock jumps: nothing is lost."""

from __future__ import annotations

import hashlib
import random
import signal
import subprocess
import time
from dataclasses import dataclass, field

import psutil
import pytest
from world import World, comparable, make_world

CLOCK = """
import random

import bench.run.provenance

bench.run.provenance.now_utc = lambda: f"{random.SystemRandom().randrange(1990, 2050)}-01-01T00:00:00.000+00:00"
"""
SWEEP = ("-a", "steps", "-a", "plain", "-v", "mini-mlp-4", "-v", "mini-mlp-6", "--seeds", "0-3", "--jobs", 2)
QUICK = (*SWEEP, "--controls", "quick")
RUNS = 16


@dataclass
class Sweeps:
    """Two sweeps at work on the results of a world, each begun again when it ends or is killed.

    Attributes:
        world: whose results they make: one the quick null controls first, the other all of them at once.
        running: the processes of the command line.
        kept: the hash of each reconstruction that has been stored.
        kills: how many processes were killed.
        complete: how often a sweep came to its end.
    """

    world: World
    running: dict[tuple[object, ...], subprocess.Popen[str]] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    kills: int = 0
    complete: int = 0

    def begin(self) -> None:
        """Start what does not run; see that what ended by itself ended well."""
        for words in (QUICK, SWEEP):
            process = self.running.get(words)
            if process is not None and process.poll() is None:
                continue
            if process is not None and process.returncode != -signal.SIGKILL:
                out, err = process.communicate()
                assert "Traceback" not in out + err, out + err
                self.complete += process.returncode == 0
            self.running[words] = self.world.start(*words)

    def kill(self, chance: random.Random) -> None:
        """Kill one process of the two families."""
        family = []
        for process in self.running.values():
            try:
                parent = psutil.Process(process.pid)
                family += [parent, *parent.children(recursive=True)]
            except psutil.Error:
                continue
        if family:
            try:
                chance.choice(family).kill()
                self.kills += 1
            except psutil.Error:
                return

    def require_kept(self) -> None:
        """See that every reconstruction that was ever stored is there and is what it was."""
        found = reconstructions(self.world)
        assert self.kept.keys() <= found.keys()
        assert all(found[name] == content for name, content in self.kept.items())
        self.kept = found

    def end(self) -> None:
        """Kill both for good."""
        for process in self.running.values():
            process.kill()
            process.communicate()
        self.running.clear()


def reconstructions(world: World) -> dict[str, str]:
    """The hash of each stored reconstruction by its run; of one whose folder is being replaced, from where it waits."""
    found: dict[str, str] = {}
    for _ in range(3):  # a rename may come between the listing and the reading
        for path in (world.results / "runs").glob("*/reconstruction.safetensors"):
            if not path.parent.name.endswith(".writing"):
                name = path.parent.name.removesuffix(".replaced")
                name = name[1:].rpartition(".")[0] if name.startswith(".") else name
                try:
                    found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
                except FileNotFoundError:
                    continue
    return found


def settled(world: World) -> list[dict[str, object]]:
    """Finish the sweep undisturbed and return what its tables hold."""
    ended = world.run(*SWEEP)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = world.rows()
    assert len(rows) == len(set(rows["run_id"])) == RUNS
    assert (rows["status"] == "ok").all()
    assert (rows["scores"] == "scored").all()
    assert world.unfinished() == []
    return [row for name in ("runs.csv", "leaderboard.csv") for row in comparable(world.rows(name))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_fifty_kills_lose_nothing(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    undisturbed = settled(make_world(tmp_path_factory.mktemp("undisturbed")))
    chance, kills, rounds = random.Random(seed), 0, 0
    while kills < 50:
        world = make_world(tmp_path_factory.mktemp("killed"))
        (world.plugins / "clock.py").write_text(CLOCK)
        sweeps = Sweeps(world)
        try:
            while sweeps.complete < 2 and kills + sweeps.kills < 50:
                sweeps.begin()
                time.sleep(chance.uniform(0, 1.5))
                sweeps.kill(chance)
                sweeps.require_kept()
        finally:
            sweeps.end()
        kills, rounds = kills + sweeps.kills, rounds + 1
        assert settled(world) == undisturbed
        sweeps.require_kept()
        assert len(sweeps.kept) == RUNS
    assert rounds >= 1
