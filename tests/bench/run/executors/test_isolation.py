"""An attack looks for what it did not declare, in memory, up the stack, on disk, and finds nothing where it runs."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from processes import environment
from rich.console import Console
from world import World

from attacks.context import UNLIMITED
from bench.run.executors.processes import Limits, Processes
from bench.run.executors.task import Task
from bench.run.setup import Setup
from bench.terminal.progress import TerminalReporter

Here = Callable[..., Any]

SPY = '''
import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction

SHAPE = (4, 1, 12, 12)
"""Of the training images of the victim that the tests attack."""


def images_in_memory():
    """Arrays are not told by the collector, what holds them is."""
    return any(type(found).__name__ == "Split" and found.inputs.shape == SHAPE for found in gc.get_objects())


def victim_on_the_stack():
    frame = sys._getframe()
    while frame is not None:
        if "victim" in frame.f_locals and hasattr(frame.f_locals["victim"], "split"):
            return True
        frame = frame.f_back
    return False


class Spy(Attack):
    name = "spy"
    summary = "looks for the training images"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.LOGITS, Knowledge.LABELS})
    Params = AttackParams

    def reconstruct(self, view, ctx):
        import torch

        found = [name for name in ("images_in_memory", "victim_on_the_stack") if globals()[name]()]
        queries = torch.rand(5, *view.architecture.input_shape, generator=ctx.generator)
        answers = view.logits(queries)
        assert tuple(answers.shape) == (5,)
        return Reconstruction(candidates=queries, loss=float(answers.double().sum()), flags=tuple(found))


class Reader(Spy):
    name = "reader"

    def reconstruct(self, view, ctx):
        np.load(Path(__file__).parent / "mini.npz")["train_images"]
        return super().reconstruct(view, ctx)


class Asks(Spy):
    name = "asks"

    def reconstruct(self, view, ctx):
        return Reconstruction(candidates=view.logits("what?"))


class Leaves(Spy):
    """Leaves a process behind, in a session of its own, whose parent is gone."""

    name = "leaves"

    def reconstruct(self, view, ctx):
        code = "import os, time; os.fork() and os._exit(0); time.sleep(600)"
        subprocess.run([sys.executable, "-c", code, "left-behind"], start_new_session=True)
        return super().reconstruct(view, ctx)


class Shows(Spy):
    name = "shows"

    def reconstruct(self, view, ctx):
        import torch

        candidates = torch.rand(1, *view.architecture.input_shape, generator=ctx.generator)
        return Reconstruction(candidates=candidates, flags=("GPU " + os.environ["CUDA_VISIBLE_DEVICES"],))


class Cores(Spy):
    name = "cores"

    def reconstruct(self, view, ctx):
        import resource

        found = super().reconstruct(view, ctx)
        return Reconstruction(candidates=found.candidates, flags=(f"core {resource.getrlimit(resource.RLIMIT_CORE)}",))


class Lies(Spy):
    """Speaks over all that it inherited in the place of its harness."""

    name = "lies"

    def reconstruct(self, view, ctx):
        for handle in range(3, 100):
            try:
                os.write(handle, 2 * b"\\x00\\x00\\x00\\x04nons")
            except OSError:
                pass
        time.sleep(1)
        return super().reconstruct(view, ctx)
'''


@pytest.fixture
def spied(world: World) -> World:
    (world.plugins / "spy.py").write_text(SPY)
    return world


def test_an_attack_in_a_process_of_its_own_finds_nothing(spied: World, here: Here) -> None:
    """In the run's own process it does, which `--jobs 0` is: the search is one that can find."""
    answers = set()
    found = {"images_in_memory", "victim_on_the_stack"}
    for jobs, expected in (("1", set()), ("0", found)):
        ended = here(spied, "-a", "spy", "-v", "mini-mlp-4", "--controls", "quick", "--force", "--jobs", jobs)
        assert ended.status == 0, ended.err
        (row,) = spied.rows().to_dict("records")
        flags = set(row["flags"].split(";"))
        assert found & flags == expected
        assert "queries: 5" in flags
        answers.add(row["attack_loss"])
    assert len(answers) == 1  # the victim answers the same wherever it is asked


def test_an_attack_has_the_gpu_of_its_run(spied: World) -> None:
    """A worker of a cluster does run after run, each on a GPU of its own, with processes that one server forks."""
    given = tuple(environment(spied.root).items())
    shared = Setup(spied.results, spied.plugins, spied.plugins, "cpu", twins=False)
    setups = [replace(shared, environment=(*given, ("CUDA_VISIBLE_DEVICES", gpu))) for gpu in "01"]
    tasks = [
        Task("", "shows", "", "{}", "default", "mini-mlp-4", 0, seed, UNLIMITED, setup)
        for seed, setup in enumerate(setups)
    ]
    executor = Processes(TerminalReporter(Console(quiet=True)), 1, Limits.shared(1, None))
    flags = [outcome.record.flags.split(";") for outcome in executor.execute(tasks)]
    assert [[flag for flag in told if flag.startswith("GPU")] for told in flags] == [["GPU 0"], ["GPU 1"]]


def test_an_attack_that_crashes_leaves_no_core_file(spied: World, here: Here) -> None:
    ended = here(spied, "-a", "cores", "-v", "mini-mlp-4", "--controls", "quick")
    assert ended.status == 0, ended.err
    (row,) = spied.rows().to_dict("records")
    assert "core (0, 0)" in row["flags"].split(";")


def test_reading_the_data_flags_the_row(spied: World, here: Here) -> None:
    ended = here(spied, "-a", "reader", "-a", "spy", "-v", "mini-mlp-4", "--controls", "quick")
    assert ended.status == 0, ended.err
    flags = spied.rows().set_index("attack")["flags"]
    assert "undeclared_read: mini.npz" in flags["reader"].split(";")
    assert "undeclared_read" not in flags["spy"]


def test_what_cannot_be_answered_is_the_attacks_error(spied: World, here: Here) -> None:
    ended = here(spied, "-a", "asks", "-v", "mini-mlp-4", "--controls", "quick")
    assert ended.status == 1
    (row,) = spied.rows().to_dict("records")
    assert row["status"] == "error"
    assert "AttributeError" in row["reason"]


def left_behind() -> list[psutil.Process]:
    return [found for found in psutil.process_iter(["cmdline"]) if "left-behind" in (found.info["cmdline"] or [])]


def test_nothing_outlives_the_attack_that_started_it(spied: World, here: Here) -> None:
    assert not left_behind()
    ended = here(spied, "-a", "leaves", "-v", "mini-mlp-4", "--controls", "quick")
    assert ended.status == 0, ended.err
    assert not left_behind()


def test_an_attack_that_sends_nonsense_costs_its_own_row(spied: World, here: Here) -> None:
    ended = here(spied, "-a", "lies", "-a", "spy", "-v", "mini-mlp-4", "--controls", "quick")
    assert ended.status == 1
    assert "Traceback" not in ended.out + ended.err
    rows = spied.rows().set_index("attack")
    assert rows["status"].to_dict() == {"lies": rows["status"]["lies"], "spy": "ok"}
    assert rows["status"]["lies"] in ("error", "oom")


def test_a_twin_that_dies_costs_its_null_control_until_it_can_be_had(world: World, here: Here) -> None:
    """The twin's attack is killed as for want of memory; the row is there, and the next run makes the control up."""
    (world.plugins / "fragile.py").write_text(
        SPY.replace('name = "spy"', 'name = "fragile"').replace(
            "        found = [",
            "        marker = Path(__file__).parent / 'marker'\n"
            "        if not bool(view.labels.eq(torch.tensor([0, 1, 0, 1])).all()) or marker.exists():\n"
            "            if marker.exists() and marker.read_text() == 'kill':\n"
            "                os.kill(os.getpid(), 9)\n"
            "        found = [",
        )
    )
    words = ("-a", "fragile", "-v", "mini-mlp-4")
    assert here(world, *words, "--controls", "quick").status == 0
    (world.plugins / "marker").write_text("kill")
    second = here(world, *words)
    assert second.status == 0, second.out + second.err
    (row,) = world.rows().to_dict("records")
    assert row["n_good"] != ""
    assert "lost_null_untrained" in row["flags"]
    assert "lost_null_disjoint" in row["flags"]
    (world.plugins / "marker").write_text("live")
    assert here(world, *words).status == 0
    (row,) = world.rows().to_dict("records")
    assert row["null_untrained"] != ""
    assert row["null_disjoint"] != ""
    assert "lost_" not in row["flags"]


def test_what_is_printed_without_end_is_kept_in_part(world: World, here: Here) -> None:
    (world.plugins / "loud.py").write_text(
        SPY.replace('name = "spy"', 'name = "loud"').replace(
            "        found = [", "        print('begin', 'x' * 5_000_000, 'end')\n        found = ["
        )
    )
    (world.plugins / "wordy.py").write_text(
        SPY.replace('name = "spy"', 'name = "wordy"').replace(
            "        found = [", "        raise ValueError('\\x1b[31m' + 'y' * 5_000_000)\n        found = ["
        )
    )
    ended = here(world, "-a", "loud", "-a", "wordy", "-v", "mini-mlp-4", "--controls", "quick")
    assert ended.status == 1
    assert len(ended.out) < 10_000
    assert "\x1b" not in ended.out
    rows = world.rows().set_index("attack")
    log = (world.results / rows["log"]["loud"]).read_bytes()
    assert len(log) < 1_100_000
    assert log.startswith(b"begin xxx")
    assert b"xxx end" in log
    assert rows["reason"]["wordy"].startswith("ValueError: \\x1b[31myyy")
    assert len(rows["reason"]["wordy"]) <= 500
    assert (world.results / rows["log"]["wordy"]).stat().st_size < 1_100_000
    stored = json.loads((world.results / "runs" / rows["run_id"]["wordy"] / "run.json").read_text())
    assert stored["reason"] == rows["reason"]["wordy"]


@pytest.mark.parametrize("module", ["zygote", "attacker"])
def test_what_an_attack_is_forked_from_holds_no_runner_and_no_store(module: str) -> None:
    """The contract reads imports; importing a module also runs the packages that it lies in."""
    settings = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())
    (forbidden,) = (
        set(contract["forbidden_modules"])
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract.get("source_modules") == ["bench.run.isolation"]
    )
    code = f"import sys, bench.run.isolation.{module}; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert f"bench.run.isolation.{module}" in ended.stdout.split()
    assert not forbidden & set(ended.stdout.split())
