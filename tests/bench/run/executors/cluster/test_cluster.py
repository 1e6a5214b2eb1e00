"""Plans on machines that share no folder: the rows of one machine, whatever becomes of workers, nodes and driver."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from machines import Machine, Machines
from safetensors.torch import load_file
from world import COUNTS_TRAININGS, World, comparable

from bench.run.executors.cluster.probe import versions

CELLS = ("-a", "steps", "-a", "plain", "-v", "mini-mlp-4", "-v", "mini-mlp-6", "--controls", "quick")
MANY = (*CELLS, "--seeds", "0-5")
FEW = ("-a", "steps", "-a", "plain", "-v", "mini-mlp-4", "--controls", "quick", "--seeds", "0-2")
"""Plans of 24 and of 6 runs."""
HANG_SECONDS = 1800.0
"""A cluster begins in half a minute of two quiet cores; on a busy machine that is many minutes."""
SITE_PACKAGES = Path(pd.__file__).parents[1]
MEASURED = ["cpu", "kl_mean", "kl_status", "lpips_status"]
"""Columns that say on what a run was made, beside times."""
SHARED = "wall_s is too long: the machine was shared"
"""The flag that tells what share of a core an attack had: a measurement, as times are."""
DEADLY = """
class Deadly(Plain):
    name = "deadly"
    summary = "kills its worker with a seed of 9"

    def reconstruct(self, view, ctx):
        import psutil

        if ctx.generator.initial_seed() == 9:
            for parent in psutil.Process().parents():
                if "ray::carry_out" in " ".join(parent.cmdline()):
                    parent.kill()
            time.sleep(600)  # it is ended with its worker, and has not found anything by then
        return super().reconstruct(view, ctx)
"""
HALTS = """
class Halts(Steps):
    name = "halts"
    summary = "a random walk that halts half way, if it began here: until there is a file of the name go"

    def reconstruct(self, view, ctx):
        keep, go, walked = ctx.checkpoint, Path("/tmp/home/go"), []

        def checkpoint(state):
            keep(state)
            walked.append(state)
            begun_here = len(walked) == len(ctx.trace)
            while begun_here and 2 * len(walked) == self.params.steps and go.parent.exists() and not go.exists():
                time.sleep(0.1)

        note("halts")
        ctx.checkpoint = checkpoint
        found = super().reconstruct(view, ctx)
        note(f"walked {len(walked)}")
        return found
"""
Worlds = Callable[..., World]
AtHome = Callable[[World, tuple[str, ...]], list[dict[str, object]]]


def on(machines: Machines, *words: object) -> tuple[object, ...]:
    return *words, "--executor", "ray", "--ray-address", machines.address


def rows(world: World) -> list[dict[str, object]]:
    table = world.rows().drop(columns=MEASURED).sort_values("run_id")
    table["flags"] = [[flag for flag in flags.split(";") if not flag.startswith(SHARED)] for flags in table["flags"]]
    return comparable(table)


def stored(world: World) -> int:
    return len(list((world.results / "runs").glob("[!.]*/run.json")))


def wait(until: Callable[[], object], running: subprocess.Popen[str], seconds: float = HANG_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)


def calls(nodes: Sequence[Machine]) -> Counter[str]:
    """What the plug-in did on nodes, since it was there for the first time."""
    files = [path for one in nodes for path in one.tmp.glob("ray/*/runtime_resources/**/plugins/calls")]
    return Counter(line for path in files for line in path.read_text().splitlines())


def folders(nodes: Sequence[Machine]) -> set[Path]:
    """The folders of plans on nodes; a driver that is killed leaves its own."""
    return {path for one in nodes for path in one.tmp.glob("reconstruction-bench/*")}


def go_on(nodes: Sequence[Machine]) -> None:
    """Let what has halted on nodes go on."""
    for one in nodes:
        (one.tmp / "home" / "go").touch()


def halt(nodes: Sequence[Machine]) -> None:
    """Have what begins on nodes from now on halt."""
    for one in nodes:
        (one.tmp / "home" / "go").unlink(missing_ok=True)


@pytest.fixture
def at_home(forked: Callable[..., Any]) -> AtHome:
    """The rows of a plan on one machine."""

    def call(world: World, plan: tuple[str, ...]) -> list[dict[str, object]]:
        done = forked(world.environment, *world.command(*plan, "--jobs", 2)[3:], own_server=False)
        printed = done.communicate()
        assert done.returncode == 0, printed
        return rows(world)

    return call


def killed(world: World, machines: Machines, plan: tuple[str, ...], runs: int) -> dict[Path, int]:
    """Kill the driver of a plan when so many runs are stored; return when each of them was."""
    running = world.start(*on(machines, *plan))
    wait(lambda: stored(world) >= runs, running)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    return {path: path.stat().st_mtime_ns for path in (world.results / "runs").glob("[!.]*/run.json")}


def test_a_plan_is_that_of_one_machine_though_a_node_goes_and_the_driver_is_killed(
    machines: Machines, worlds: Worlds, at_home: AtHome
) -> None:
    world = worlds()
    first = killed(world, machines, FEW, 2)
    running = world.start(*on(machines, *FEW))
    wait(lambda: stored(world) >= 4, running)
    machines.nodes[-1].fail()
    machines.add()
    out, err = running.communicate()
    assert running.returncode == 0, out + err
    assert rows(world) == at_home(worlds(), FEW)
    assert len(rows(world)) == 6
    assert {path: path.stat().st_mtime_ns for path in first} == first  # nothing was done twice
    assert not world.unfinished()


@pytest.mark.slow
def test_a_plan_on_machines_that_share_nothing_is_that_of_one(three: Machines, worlds: Worlds, at_home: AtHome) -> None:
    world, before, left = worlds(COUNTS_TRAININGS), calls(three.nodes), folders(three.nodes)
    done = world.run(*on(three, *MANY))
    assert done.returncode == 0, done.stdout + done.stderr
    assert rows(world) == at_home(worlds(COUNTS_TRAININGS), MANY)
    assert sorted(world.rows()["sequence"]) == list(range(1, 25))
    made = calls(three.nodes) - before
    assert {name: made[name] for name in made if name.startswith("train")} == {
        "train mini-mlp-4": 1,
        "train mini-mlp-6": 1,
    }
    assert folders(three.nodes) == left
    assert not world.unfinished()


@pytest.mark.slow
def test_a_node_that_goes_and_one_that_comes_cost_no_row(three: Machines, worlds: Worlds, at_home: AtHome) -> None:
    world = worlds()
    running = world.start(*on(three, *MANY))
    wait(lambda: stored(world) >= 12, running)
    three.nodes[-1].fail()
    three.add()
    out, err = running.communicate()
    assert running.returncode == 0, out + err
    assert rows(world) == at_home(worlds(), MANY)


@pytest.mark.slow
def test_a_node_that_comes_and_cannot_do_the_runs_gets_none(
    machines: Machines, worlds: Worlds, at_home: AtHome
) -> None:
    """The plan halts until the node was examined; Ray has given it a run by then, which it could not do."""
    world, able = worlds(HALTS), machines.living()
    plan = ("-a", "halts", "-v", "mini-mlp-4", "--controls", "quick", "--seeds", "0-5")
    halt(able)
    running = world.start(*on(machines, *plan))
    wait(lambda: calls(able)["halts"], running)
    unfit = machines.add(torch="9.9.9")
    unfit.wait()
    told = f"torch 9.9.9 is there, {versions()['torch']} here; install the same; it gets none"
    assert running.stdout is not None
    assert any(f"cannot do the runs: {told}" in line for line in running.stdout)
    go_on(able)
    out, err = running.communicate()
    walked = calls([unfit])
    unfit.fail()
    assert running.returncode == 0, out + err
    assert rows(world) == at_home(worlds(HALTS), plan)
    assert not walked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("node", "told"),
    [
        ({"torch": "9.9.9"}, r"torch 9\.9\.9 is there, [\d.]+ here; install the same"),
        ({"lacks": [SITE_PACKAGES / "skimage"]}, r"it has no skimage; install what pyproject\.toml names"),
        ({"disk": 60 * 2**20}, r"Failed to set up runtime environment|temporary folder cannot be written"),
    ],
    ids=["torch", "dependency", "disk"],
)
def test_a_node_that_cannot_do_the_runs_is_one_line(
    machines: Machines, worlds: Worlds, node: dict[str, Any], told: str
) -> None:
    if "disk" in node and os.geteuid():
        pytest.skip("needs leave to mount a tmpfs")
    world = worlds()
    unfit = machines.add(**node)
    try:
        machines.wait()
        if "disk" in node:
            filler = unfit.tmp / "filler"
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            os.truncate(filler, filler.stat().st_size - 2**18)  # Ray itself dies of a disk without any room
        done = world.run(*on(machines, *FEW))
    finally:
        unfit.fail()
    assert done.returncode == 2, done.stdout + done.stderr
    assert re.search(f"node .* of the cluster cannot do the runs: .*({told})", done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1
    assert not stored(world)


@pytest.mark.slow
def test_a_driver_that_is_killed_goes_on_where_it_was(three: Machines, worlds: Worlds, at_home: AtHome) -> None:
    machines, world = three, worlds()
    first = killed(world, machines, MANY, 12)
    done = world.run(*on(machines, *MANY))
    assert done.returncode == 0, done.stdout + done.stderr
    assert rows(world) == at_home(worlds(), MANY)
    assert len(first) >= 12
    assert {path: path.stat().st_mtime_ns for path in first} == first


@pytest.mark.slow
def test_a_run_goes_on_from_the_checkpoint_that_came_back(machines: Machines, worlds: Worlds, at_home: AtHome) -> None:
    """The driver is killed in the middle of a run, and its next one does only what is left."""
    world, plan = worlds(HALTS), ("-a", "halts", "-v", "mini-mlp-4", "--controls", "quick", "--set", "steps=40")
    halt(machines.living())
    running = world.start(*on(machines, *plan))
    checkpoints = world.results / ".work" / "checkpoints"
    wait(lambda: [int(load_file(path)["step"]) for path in checkpoints.glob("[!.]*.safetensors")] == [20], running)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    before = calls(machines.nodes)
    running = world.start(*on(machines, *plan))
    wait(lambda: stored(world), running)
    out, err = running.communicate()
    assert running.returncode == 0, out + err
    assert calls(machines.nodes) - before == {"halts": 1, "walked 20": 1}
    (row,) = world.rows().to_dict("records")
    trace = pd.read_csv(world.results / "runs" / row["run_id"] / "trace.csv")
    assert list(trace["step"]) == list(range(1, 41))
    assert (trace["wall_s"].diff().dropna() >= 0).all()  # of both drivers: the clock goes on, too
    assert rows(world) == at_home(worlds(HALTS), plan)


@pytest.mark.slow
def test_a_run_whose_workers_die_is_one_row(machines: Machines, worlds: Worlds) -> None:
    """An attack kills the worker that it runs beside: of its seeds only that one is lost, after a second try."""
    world = worlds(DEADLY)
    plan = ("-a", "deadly", "-v", "mini-mlp-4", "--controls", "quick", "--seeds", "8-9")
    done = world.run(*on(machines, *plan))
    assert done.returncode == 1, done.stdout + done.stderr
    status = world.rows().set_index("seed")
    assert status["status"].to_dict() == {8: "ok", 9: "error"}
    assert "its worker was lost, 2 times" in status.loc[9, "reason"]


def test_a_plug_in_that_does_not_travel_is_one_line(machines: Machines, worlds: Worlds) -> None:
    world = worlds()
    (world.root / "beside.txt").write_text("3")
    (world.plugins / "tied.py").write_text(f"STEPS = int(open({str(world.root / 'beside.txt')!r}).read())")
    done = world.run(*on(machines, "-a", "plain", "-v", "mini-mlp-4"))
    assert done.returncode == 2
    assert "cannot do the runs: the plug-in tied.py does not import there (FileNotFoundError" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not stored(world)
