"""Plans on machines that share no folder: the rows of one machine, whatever becomes of workers, nodes and the driver."""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from machines import Machines
from world import World, comparable

PLAN = ("-a", "steps", "-a", "plain", "-v", "mini-mlp-4", "-v", "mini-mlp-6", "--controls", "quick", "--seeds", "0-5")
RUNS = 24
MEASURED = ["cpu", "kl_mean", "kl_status", "lpips_status"]
"""Columns that say on what a run was made, beside times."""
Worlds = Callable[[], World]


def on(machines: Machines, *words: object) -> tuple[object, ...]:
    return *words, "--executor", "ray", "--ray-address", machines.address


def rows(world: World) -> list[dict[str, object]]:
    table = world.rows().drop(columns=MEASURED)
    return comparable(table.sort_values("run_id"))


def stored(world: World) -> int:
    return len(list((world.results / "runs").glob("[!.]*/run.json")))


def wait(until: Callable[[], object], running: subprocess.Popen[str], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)


def calls(machines: Machines) -> Counter[str]:
    """What the plug-in did on the nodes, since it was there for the first time."""
    files = [path for one in machines.nodes for path in one.tmp.glob("ray/*/runtime_resources/**/plugins/calls")]
    return Counter(line for path in files for line in path.read_text().splitlines())


@pytest.fixture(scope="module")
def local(worlds: Worlds) -> list[dict[str, object]]:
    """The rows of the plan on one machine."""
    world = worlds()
    done = world.run(*PLAN, "--jobs", 2)
    assert done.returncode == 0, done.stderr
    return rows(world)


def test_a_plan_on_machines_that_share_nothing_is_that_of_one(
    machines: Machines, worlds: Worlds, local: list[dict[str, object]]
) -> None:
    world = worlds()
    done = world.run(*on(machines, *PLAN))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(local) == RUNS
    assert rows(world) == local
    assert sorted(world.rows()["sequence"]) == list(range(1, RUNS + 1))
    made = calls(machines)
    assert {name: made[name] for name in made if name.startswith("train")} == {
        "train mini-mlp-4": 1,
        "train mini-mlp-6": 1,
    }
    assert not [path for one in machines.nodes for path in one.tmp.glob("reconstruction-bench/*")]
    assert not world.unfinished()
