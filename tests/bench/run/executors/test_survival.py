"""Kills at random moments, resumes, and several processes at one sweep: nothing is lost, nothing is done twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from processes import main
from world import World, comparable, make_world

SWEEP = ("-a", "steps", "-a", "plain", "-v", "mini-mlp-4", "-v", "mini-mlp-6", "--seeds", "0-2", "--jobs", 2)
RUNS = 12
TABLES = ("runs.csv", "leaderboard.csv")


def killed_five_times(seed: int, table: Path) -> None:
    """Start the command line and kill it, without the seconds that its imports take; leave the last one to its end."""
    import bench.experiments.sweep
    import bench.publish.leaderboard
    import bench.run.artifacts
    import bench.run.disclosure
    import bench.run.nulls.controls
    import bench.scoring.learned_metrics  # noqa: F401

    chance = random.Random(seed)
    for _ in range(5):
        child = os.fork()
        if child == 0:
            main()
        while not table.exists():  # a busy machine takes longer to get to the first run
            time.sleep(0.05)
        time.sleep(chance.uniform(0.2, 1.5))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    main()


def killed_at_random(world: World, kills: int, chance: random.Random, seconds: float) -> int:
    """Start the sweep and kill it, again and again; one that ends before gives way to a new one. Return how many do."""
    ended = 0
    while kills:
        running = world.start(*SWEEP)
        try:
            out, err = running.communicate(timeout=chance.uniform(0, seconds))
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            running.communicate()
            kills -= 1
            continue
        assert running.returncode == 0, out + err
        require_whole(world)
        ended += 1
        if kills:
            world.results.rename(world.root / f"results-{ended}")
    return ended


def require_whole(world: World) -> None:
    rows = world.rows()
    assert len(rows) == len(set(rows["run_id"])) == RUNS
    assert (rows["status"] == "ok").all()
    assert world.unfinished() == []


def test_five_kills_and_a_resume(
    world: World, tmp_path_factory: pytest.TempPathFactory, forked: Callable[..., Any]
) -> None:
    undisturbed = make_world(tmp_path_factory.mktemp("undisturbed"))
    words = (*SWEEP[:-1], 0)
    whole = forked(undisturbed.environment, *undisturbed.command(*words)[3:])
    killing = partial(killed_five_times, 1, world.results / "runs.csv")
    killed = forked(world.environment, *world.command(*words)[3:], task=killing)
    for one in (whole, killed):
        printed = one.communicate()
        assert one.returncode == 0, printed
    require_whole(undisturbed)
    require_whole(world)
    for name in TABLES:
        assert comparable(world.rows(name)) == comparable(undisturbed.rows(name))


@pytest.mark.slow
@pytest.mark.parametrize("kills", [10] * 5)
def test_a_sweep_that_is_killed_and_resumed_is_the_undisturbed_one(
    world: World, kills: int, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> None:
    undisturbed = make_world(tmp_path_factory.mktemp("undisturbed"))
    begun = time.monotonic()
    assert undisturbed.run(*SWEEP).returncode == 0
    seconds = time.monotonic() - begun
    require_whole(undisturbed)

    killed_at_random(world, kills, random.Random(request.node.name), seconds)
    last = world.run(*SWEEP)
    assert last.returncode == 0, last.stderr
    require_whole(world)
    for name in TABLES:
        assert comparable(world.rows(name)) == comparable(undisturbed.rows(name))


@pytest.mark.parametrize(
    ("processes", "seeds", "jobs"), [(3, 3, 0), pytest.param(4, 5, 1, marks=pytest.mark.slow)], ids=["quick", "40 runs"]
)
def test_several_processes_share_a_sweep(
    world: World, processes: int, seeds: int, jobs: int, forked: Callable[..., Any]
) -> None:
    victims = [word for n in (2, 4, 6, 8) for word in ("-v", f"mini-mlp-{n}")]
    words = ("-a", "plain", "-a", "steps", *victims, "--seeds", f"0-{seeds - 1}", "--controls", "quick", "--jobs", jobs)
    running = [forked(world.environment, *world.command(*words)[3:]) for _ in range(processes)]
    ended = [(*process.communicate(), process.returncode) for process in running]

    assert [status for _, _, status in ended] == [0] * processes, ended
    runs = 2 * 4 * seeds
    rows = world.rows()
    assert len(rows) == len(set(rows["run_id"])) == runs
    assert (rows["status"] == "ok").all()
    calls = world.calls()
    assert sorted(call for call in calls if call != "plain") == [f"train mini-mlp-{n}" for n in (2, 4, 6, 8)]
    assert calls.count("plain") == runs // 2  # no run was made twice
    assert world.unfinished() == []
    lines = [line for out, _, _ in ended for line in out.splitlines() if ": of " in line]
    assert len(lines) == processes * runs  # each tells of them all


@pytest.mark.slow
def test_an_attack_goes_on_from_its_checkpoint(world: World) -> None:
    slow = ("-a", "steps", "-v", "mini-mlp-4", "--set", "steps=200", "--controls", "quick")
    running = world.start(*slow)
    checkpoints = world.results / ".work" / "checkpoints"
    deadline = time.monotonic() + 120
    while not (checkpoints.exists() and any(checkpoints.glob("steps-*"))):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    running.kill()
    running.communicate()

    assert world.run(*slow).returncode == 0
    (row,) = world.rows().to_dict("records")
    steps = (world.results / "runs" / row["run_id"] / "trace.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in steps] == ["step", *map(str, range(1, 201))]
    loss = row["attack_loss"]

    other = make_world(world.root / "other")
    assert other.run(*slow).returncode == 0
    assert other.rows()["attack_loss"].tolist() == [loss]


def test_a_child_does_not_survive_its_parent(world: World, forked: Callable[..., Any]) -> None:
    import psutil

    words = ("-a", "steps", "-v", "mini-mlp-4", "--set", "steps=100000")
    running = forked(world.environment, *world.command(*words)[3:])
    deadline = time.monotonic() + 120
    while not (world.results / ".work" / "checkpoints").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    family = psutil.Process(running.pid).children(recursive=True)
    assert len(family) >= 2  # the server and the child that it forked, at least
    running.kill()
    running.communicate()
    assert psutil.wait_procs(family, timeout=20)[1] == []


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["local", "ray"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_finishes_the_tables(world: World, number: signal.Signals, executor: str) -> None:
    """Ray brings a handler of its own for SIGTERM, which would end the process and leave the tables."""
    words = ("-a", "plain", "-a", "steps", "-v", "mini-mlp-4", "--set", "steps=100000", "--jobs", 2)
    running = world.start(*words, "--executor", executor)
    deadline = time.monotonic() + 300
    while not ((world.results / "runs.csv").exists() and len(world.rows())):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    running.send_signal(number)
    _, err = running.communicate(timeout=60)

    assert running.returncode == 130
    assert err == "bench: interrupted; finished runs are stored, and the same command makes the others\n"
    assert world.rows()["attack"].tolist() == ["plain"]
    assert not list((world.results / "runs").glob(".*"))
