"""Plans on machines that share no folder: the rows of one machine, whatever becomes of workers, nodes and driver."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from machines import Machines
from world import World, comparable

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
DEADLY = """
import psutil

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction


class Deadly(Attack):
    name = "deadly"
    summary = "kills its worker with a seed of 9"
    needs = frozenset({Knowledge.ARCHITECTURE})
    Params = AttackParams

    def reconstruct(self, view, ctx):
        import torch

        if ctx.generator.initial_seed() == 9:
            for parent in psutil.Process().parents():
                if "ray::carry_out" in " ".join(parent.cmdline()):
                    parent.kill()
        return Reconstruction(candidates=torch.randn(3, *view.architecture.input_shape, generator=ctx.generator))
"""
Worlds = Callable[[], World]


def on(machines: Machines, *words: object) -> tuple[object, ...]:
    return *words, "--executor", "ray", "--ray-address", machines.address


def rows(world: World) -> list[dict[str, object]]:
    table = world.rows().drop(columns=MEASURED)
    return comparable(table.sort_values("run_id"))


def stored(world: World) -> int:
    return len(list((world.results / "runs").glob("[!.]*/run.json")))


def wait(until: Callable[[], object], running: subprocess.Popen[str], seconds: float = HANG_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)


def calls(machines: Machines) -> Counter[str]:
    """What the plug-in did on the nodes, since it was there for the first time."""
    files = [path for one in machines.nodes for path in one.tmp.glob("ray/*/runtime_resources/**/plugins/calls")]
    return Counter(line for path in files for line in path.read_text().splitlines())


def here(world: World, plan: tuple[str, ...]) -> list[dict[str, object]]:
    """The rows of a plan on one machine."""
    done = world.run(*plan, "--jobs", 2)
    assert done.returncode == 0, done.stderr
    return rows(world)


def killed(world: World, machines: Machines, plan: tuple[str, ...], runs: int) -> dict[Path, int]:
    """Kill the driver of a plan when so many runs are stored; return when each of them was."""
    running = world.start(*on(machines, *plan))
    wait(lambda: stored(world) >= runs, running)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    return {path: path.stat().st_mtime_ns for path in (world.results / "runs").glob("[!.]*/run.json")}


def test_a_plan_is_that_of_one_machine_though_a_node_goes_and_the_driver_is_killed(
    machines: Machines, worlds: Worlds
) -> None:
    world = worlds()
    first = killed(world, machines, FEW, 2)
    running = world.start(*on(machines, *FEW))
    wait(lambda: stored(world) >= 4, running)
    machines.nodes[-1].fail()
    machines.add()
    out, err = running.communicate()
    assert running.returncode == 0, out + err
    assert rows(world) == here(worlds(), FEW)
    assert len(rows(world)) == 6
    assert {path: path.stat().st_mtime_ns for path in first} == first  # nothing was done twice
    assert not world.unfinished()


@pytest.mark.slow
def test_a_plan_on_machines_that_share_nothing_is_that_of_one(three: Machines, worlds: Worlds) -> None:
    machines, world, before = three, worlds(), calls(three)
    done = world.run(*on(machines, *MANY))
    assert done.returncode == 0, done.stdout + done.stderr
    assert rows(world) == here(worlds(), MANY)
    assert sorted(world.rows()["sequence"]) == list(range(1, 25))
    made = calls(machines) - before
    assert {name: made[name] for name in made if name.startswith("train")} == {
        "train mini-mlp-4": 1,
        "train mini-mlp-6": 1,
    }
    assert not [path for one in machines.nodes for path in one.tmp.glob("reconstruction-bench/*")]
    assert not world.unfinished()


@pytest.mark.slow
def test_a_node_that_goes_and_one_that_comes_cost_no_row(three: Machines, worlds: Worlds) -> None:
    world = worlds()
    running = world.start(*on(three, *MANY))
    wait(lambda: stored(world) >= 12, running)
    three.nodes[-1].fail()
    three.add()
    out, err = running.communicate()
    assert running.returncode == 0, out + err
    assert rows(world) == here(worlds(), MANY)


@pytest.mark.slow
def test_a_node_that_comes_and_cannot_do_the_runs_gets_none(machines: Machines, worlds: Worlds) -> None:
    world = worlds()
    running = world.start(*on(machines, *MANY))
    wait(lambda: stored(world) >= 2, running)
    unfit = machines.add(torch="9.9.9")
    out, err = running.communicate()
    unfit.fail()
    assert running.returncode == 0, out + err
    assert (
        f"cannot do the runs: torch 9.9.9 is there, {versions()['torch']} here; install the same; it gets none" in out
    )
    assert rows(world) == here(worlds(), MANY)


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
    world, nodes = worlds(), sum(one.process.poll() is None for one in machines.nodes)
    unfit = machines.add(**node)
    try:
        machines.wait(nodes + 1)
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
def test_a_driver_that_is_killed_goes_on_where_it_was(three: Machines, worlds: Worlds) -> None:
    machines, world = three, worlds()
    first = killed(world, machines, MANY, 12)
    done = world.run(*on(machines, *MANY))
    assert done.returncode == 0, done.stdout + done.stderr
    assert rows(world) == here(worlds(), MANY)
    assert len(first) >= 12
    assert {path: path.stat().st_mtime_ns for path in first} == first


@pytest.mark.slow
def test_a_run_goes_on_from_the_checkpoint_that_came_back(machines: Machines, worlds: Worlds) -> None:
    """The driver is killed in the middle of a long run, and its next one does only what is left."""
    world = worlds()
    plan = ("-a", "steps", "-v", "mini-mlp-4", "--controls", "quick", "--set", "steps=1200")
    running = world.start(*on(machines, *plan))
    checkpoints = world.results / ".work" / "checkpoints"
    wait(lambda: list(checkpoints.glob("[!.]*")), running)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    done = world.run(*on(machines, *plan))
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = world.rows().to_dict("records")
    trace = pd.read_csv(world.results / "runs" / row["run_id"] / "trace.csv")
    assert list(trace["step"]) == list(range(1, 1201))
    assert (trace["wall_s"].diff().dropna() >= 0).all()  # of both drivers: the clock goes on, too
    assert rows(world) == here(worlds(), plan)


@pytest.mark.slow
def test_a_run_whose_workers_die_is_one_row(machines: Machines, worlds: Worlds) -> None:
    """An attack kills the worker that it runs beside: of its seeds only that one is lost, after a second try."""
    world = worlds()
    (world.plugins / "deadly.py").write_text(DEADLY)
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
