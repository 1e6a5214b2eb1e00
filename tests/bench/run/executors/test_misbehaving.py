"""Plug-ins that misbehave in every way: each costs its own run, which is a row, and no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from world import World

Here = Callable[..., Any]

HEAD = """
import ctypes
import os
import sys
import time

import numpy as np
import torch

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction


class Base(Attack):
    name = "base-NAME"
    summary = "misbehaves"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS})
    Params = AttackParams

    def reconstruct(self, view, ctx):
        images = torch.zeros(3, *view.architecture.input_shape)
        print("loud\\n" * 1000)
        return Reconstruction(candidates=self.misbehave(images, view))

"""
WAYS: dict[str, tuple[str, str, str]] = {
    "construction": ("def __init__(self, params): raise OSError('no such thing')", "error", "OSError: no such thing"),
    "middle": ("def misbehave(self, images, view): raise KeyError('lost')", "error", "KeyError: 'lost'"),
    "hang": ("def misbehave(self, images, view):\n        while True: time.sleep(0.1)", "timeout", "budget of 1s"),
    "hoard": (
        "def misbehave(self, images, view): self.all = [np.ones(2**25) for _ in range(400)]",
        "oom",
        "GiB of memory, of the 1.2 that it may",
    ),
    "segfault": ("def misbehave(self, images, view): ctypes.string_at(0)", "error", "killed by SIGSEGV"),
    "exit": ("def misbehave(self, images, view): os._exit(0)", "error", "with exit status 0"),
    "nan": ("def misbehave(self, images, view): return images * float('nan')", "diverged", "no candidate is finite"),
    "shape": ("def misbehave(self, images, view): return images[..., 1:]", "error", "expected a tensor (m, 1, 12, 12)"),
    "meta": ("def misbehave(self, images, view): return images.to('meta')", "error", "meta"),
    "vandal": (
        "def misbehave(self, images, view):\n"
        "        view.shown(Knowledge.WEIGHTS)['layers.0.weight'].zero_()\n"
        "        return images",
        "error",
        "changed the victim's weights",
    ),
    "peek": ("def misbehave(self, images, view): return images + view.labels.sum()", "error", "'labels'"),
}
"""Name of the attack: what it does, the status of its row, and what the reason says."""


def test_each_misbehaviour_is_one_row_and_costs_no_other_run(world: World, here: Here) -> None:
    for name, (code, _, _) in WAYS.items():
        text = f"{HEAD.replace('NAME', name)}class Bad(Base):\n    name = {name!r}\n    {code}\n"
        (world.plugins / f"{name}.py").write_text(text)
    (world.plugins / "import.py").write_text("raise RuntimeError('not today')\n")
    words = [word for name in ("plain", *WAYS, "steps") for word in ("-a", name)]
    ended = here(world, *words, "-v", "mini-mlp-4", "--jobs", 2, "--budget", "1s", "--memory", "1.2g")

    assert ended.status == 1, ended.err
    assert "Traceback" not in ended.out + ended.err
    assert "loud" not in ended.out + ended.err
    assert [line for line in ended.err.splitlines() if "import.py" in line and "not today" in line]
    rows = world.rows().set_index("attack")
    assert sorted(rows.index) == sorted(["plain", "steps", *WAYS])
    for name, (_, status, words_of) in WAYS.items():
        row = rows.loc[name]
        assert (row["status"], words_of in row["reason"]) == (status, True), row["reason"]
        log = (world.results / row["log"]).read_text()
        assert name == "construction" or log.count("loud") == 1000
        record = json.loads((world.results / "runs" / row["run_id"] / "run.json").read_text())
        assert (record["null_n_good"] is None) == (name == "construction")  # what it counts as; no victim was loaded
    assert "reconstruct" in (world.results / rows.loc["hang", "log"]).read_text()  # where it hung
    assert "Segmentation fault" in (world.results / rows.loc["segfault", "log"]).read_text()
    assert rows.loc[["plain", "steps"], "status"].tolist() == ["ok", "ok"]
    assert (world.results / rows.loc["plain", "log"]).read_text() == "a line\n"
    assert world.unfinished() == []
    assert world.calls().count("train mini-mlp-4") == 1

    board = world.rows("leaderboard.csv").set_index("attack")
    assert (board.loc[list(WAYS), "failed"] == 1).all()
    counted = [name for name in WAYS if name != "construction"]
    scores = board.loc[counted, ["n_good", "null_n_good"]].astype(float)
    assert (scores["n_good"] == scores["null_n_good"]).all()


def test_a_plugin_that_does_not_import_is_named_when_it_is_asked_for(world: World, here: Here) -> None:
    (world.plugins / "broken.py").write_text("raise RuntimeError('not today')\n")
    ended = here(world, "-a", "broken", "-v", "mini-mlp-4")
    assert ended.status == 2
    assert "RuntimeError: not today" in ended.err
    assert not Path(world.results).exists()


@pytest.mark.slow
def test_who_dies_on_a_twin_keeps_its_score(world: World, here: Here) -> None:
    (world.plugins / "fragile.py").write_text(
        HEAD.replace("NAME", "fragile")
        + """class Fragile(Base):
    name = "fragile"

    def misbehave(self, images, view):
        calls = Path(__file__).with_name("fragile.txt")
        calls.write_text(calls.read_text() + "called" if calls.exists() else "called")
        if calls.read_text() != "called":
            os._exit(3)
        return images
""".replace("Path(", "__import__('pathlib').Path(")
    )
    ended = here(world, "-a", "fragile", "-v", "mini-mlp-4")

    assert ended.status == 0, ended.out + ended.err
    (row,) = world.rows().to_dict("records")
    assert (row["status"], row["n_candidates"], row["null_untrained"], row["null_disjoint"]) == ("ok", 3, "", "")
    assert "failed_null_untrained: LookupError: the process ended in the middle of the run, with exit" in row["flags"]
    assert row["null_held_out"] != ""
    assert "--force" in here(world, "-a", "fragile", "-v", "mini-mlp-4").out
