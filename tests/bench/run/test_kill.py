"""A kill -9 in the middle of a run loses that run and nothing else."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from processes import bench_run, environment

PLUGIN = """
from victims.spec import MLPSpec, NormalizedDescent, VictimSpec

SMALL = MLPSpec(hidden=(8, 8))
VICTIMS = (
    VictimSpec(name="faces-quick-4", dataset="faces", n=4, architecture=SMALL, training=NormalizedDescent(steps=40)),
    VictimSpec(name="faces-long-4", dataset="faces", n=4, architecture=SMALL, training=NormalizedDescent(steps=LONG)),
)
"""


SLOW = """
import os
import time
from pathlib import Path

import torch

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction


class Slow(Attack):
    name = "slow"
    summary = "hangs on the victim's twin, and counts its calls"
    needs = frozenset({Knowledge.ARCHITECTURE})
    Params = AttackParams

    def reconstruct(self, view, ctx):
        with Path(os.environ["BENCH_CALLS"]).open("a") as calls:
            calls.write("called\\n")
        if Path(os.environ["BENCH_CALLS"]).read_text().count("called") == 2:
            time.sleep(600)
        return Reconstruction(candidates=torch.rand(4, *view.architecture.input_shape, generator=ctx.generator))
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the cache, with the judge of the faces, who is trained once."""
    return tmp_path_factory.mktemp("kept")


def test_kill_in_the_middle_of_a_plan(
    tmp_path: Path, kept: Path, followed: Callable[..., Any], forked: Callable[..., Any]
) -> None:
    plugins, results = tmp_path / "plugins", tmp_path / "results"
    plugins.mkdir()
    plugin = plugins / "small.py"
    plugin.write_text(PLUGIN.replace("LONG", "100_000_000"))
    given = environment(kept, BENCH_JOBS="1")
    command = bench_run(
        plugins, results, "-a", "first-layer", "-v", "faces-quick-4", "-v", "faces-long-4", "--controls", "quick"
    )
    running = forked(given, *command[3:], own_server=False)
    while "\ntrain faces-long-4" not in running.printed:  # until the second victim is in training
        assert running.returncode is None, running.communicate()
        time.sleep(0.05)
    time.sleep(0.2)
    running.kill()
    running.communicate()
    assert running.returncode == -signal.SIGKILL
    assert list(pd.read_csv(results / "runs.csv")["victim"]) == ["faces-quick-4"]

    plugin.write_text(PLUGIN.replace("LONG", "50"))
    again = followed(given, *command[3:])
    assert again.status == 0, again.err
    assert "stored" in again.out  # the finished run was not run again
    assert set(pd.read_csv(results / "runs.csv")["victim"]) == {"faces-quick-4", "faces-long-4"}
    assert not list((results / "runs").glob(".*"))


def test_kill_while_a_run_is_scored_loses_no_attack(
    tmp_path: Path, kept: Path, followed: Callable[..., Any], forked: Callable[..., Any]
) -> None:
    plugins, results, calls = tmp_path / "plugins", tmp_path / "results", tmp_path / "calls"
    plugins.mkdir()
    (plugins / "small.py").write_text(PLUGIN.replace("LONG", "50"))
    (plugins / "slow.py").write_text(SLOW)
    given = environment(kept, BENCH_JOBS="1", BENCH_CALLS=str(calls))
    command = bench_run(plugins, results, "-a", "slow", "-v", "faces-quick-4")
    running = forked(given, *command[3:], own_server=False)
    deadline = time.monotonic() + 120
    while not (calls.exists() and calls.read_text().count("called") == 2):  # until the attack on the untrained twin
        assert time.monotonic() < deadline
        time.sleep(0.1)
    running.kill()
    running.communicate()
    assert pd.read_csv(results / "runs.csv").empty  # nothing is scored yet

    again = followed(given, *command[3:], "--controls", "quick")
    assert again.status == 0, again.err
    assert calls.read_text().count("called") == 2
    (row,) = pd.read_csv(results / "runs.csv").to_dict("records")
    assert row["status"] == "ok"
    assert row["n_candidates"] == 4
    assert "unavailable" in row["lpips_status"]
    assert row["kl_mean"] > 0  # noise is not what the judge takes it for
    assert row["kl_status"].startswith("judge lenet on faces, accuracy ")
