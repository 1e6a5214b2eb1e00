"""Defended victims in runs: named, told apart, scored again, shown, studied, and given from a file."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from attacks.studies.base import Plot
from bench.experiments.study_picture import draw
from bench.plan import registry
from victims.cache import WEIGHTS, victim_folder
from victims.datasets import fingerprint
from victims.released.tails import tail_network_of

Bench = Callable[..., Any]
VICTIM = "faces-mlp-4-tiny"
NAMES = [VICTIM, f"{VICTIM}+noise=0.5", f"{VICTIM}+noise=0.5+round=int8"]


def rows(results: Path) -> pd.DataFrame:
    return pd.read_csv(results / "runs.csv", keep_default_na=False).set_index("victim")


def test_a_defended_victim_has_rows_of_its_own_and_is_found_by_its_name(
    run: Bench, bench: Bench, results: Path, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("victims.exposure.reading.SEEDS", 100)  # which `show` tries
    for defences in ((), ("noise=.5",), ("noise=.5", "round=int8")):
        given = [word for text in defences for word in ("--defence", text)]
        ended = run("-a", "random", *given)
        assert ended.status == 0, ended.err
        assert "test accuracy 0." in ended.out
    table = rows(results)
    assert sorted(table.index) == NAMES
    assert len({*table["victim_sha"]}) == 3
    assert (table["train_s"] == table["train_s"].iloc[0]).all()
    assert table["null_untrained"].ne("").all()
    board = pd.read_csv(results / "leaderboard.csv").set_index("victim")
    assert sorted(board.index) == NAMES
    assert board["test_accuracy"].notna().all()
    assert "test accuracy" in (results / "leaderboard.md").read_text()

    folder = ("--plugin-dir", plugins)
    stored = run("-a", "random", "-v", f"{VICTIM}+noise=0.50")
    assert "stored; --force runs it again" in stored.out
    again = bench("score", "-v", NAMES[1], "--results-dir", results, *folder, "--device", "cpu")
    assert (again.status, NAMES[1] in again.out) == (0, True)
    card = bench("show", NAMES[2], *folder)
    assert all(word in card.out for word in ("noise", "int8", "tiny.py", "test_accuracy"))


def test_a_plan_file_names_defences(run: Bench, results: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(f'[[plan]]\nattack = ["random"]\nvictim = ["{VICTIM}"]\ndefence = ["noise=0.5", "round=int8"]\n')
    assert run("--config", plan, "-v", VICTIM).status == 0
    assert [*rows(results).index] == NAMES[2:]


def test_a_defence_that_does_not_fit_is_told_before_anything_is_done(bench: Bench, results: Path) -> None:
    for words in (("run", "-v", "faces-mlp-20"), ("show", "faces-mlp-20+dp=3"), ("tune", "-v", "faces-mlp-20")):
        given = ("--defence", "dp=3") if "+" not in words[-1] else ()
        ended = bench(*words, *given, "--results-dir", results)
        assert ended.status == 2
        assert "faces-mlp-20 cannot have the defence dp=3" in ended.err
        assert ended.err.count("\n") == 1
    assert not results.exists()


OWN = """
from torch import nn
from victims.released import released


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.BatchNorm1d(9), nn.GELU(), nn.Linear(9, 2))

    def forward(self, inputs):
        return self.body(inputs)


VICTIMS = (released("mine", network=Own, weights={weights!r}, images={images!r}),)
"""


def test_a_model_of_ones_own_is_defended_and_its_buffers_stay(bench: Bench, results: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.BatchNorm1d(9), nn.GELU(), nn.Linear(9, 2))
    weights, images = tmp_path / "weights.pt", tmp_path / "images.npz"
    torch.save({f"body.{name}": value for name, value in body.state_dict().items()}, weights)
    shown = np.random.default_rng(0).integers(0, 256, (8, 8, 8), dtype=np.uint8)
    np.savez(images, train_images=shown, train_labels=np.arange(8) % 2, test_images=shown, test_labels=np.arange(8) % 2)
    (tmp_path / "mine.py").write_text(OWN.format(weights=str(weights), images=str(images)))
    small = ("--set", "candidates=4", "--set", "steps=3", "--controls", "quick", "--results-dir", results)
    stacked = ("--defence", "noise=0.5", "--defence", "round=int8", "--defence", "clip-outputs=0.01")
    ended = bench("run", "-a", "inversion", "-v", "mine", "--plugin-dir", tmp_path / "mine.py", *small, *stacked)
    assert ended.status == 0, ended.err
    (name,) = rows(results).index
    assert name == "mine+noise=0.5+round=int8+clip-outputs=0.01"
    spec = registry.victims(tmp_path / "mine.py").find(name)
    assert spec is not None
    released = load_file(victim_folder(spec, fingerprint(spec.dataset, None)) / WEIGHTS)
    own = tail_network_of(nn.Sequential(OrderedDict(body=body)).eval(), (1, 8, 8)).state_dict()
    assert released.keys() == own.keys()
    for entry, value in own.items():
        same = torch.equal(released[entry], value)
        assert same == ("running" in entry or "num" in entry or not value.any())  # noise on zeros is none


@pytest.mark.parametrize("missing", [False, True])
def test_a_tradeoff_is_drawn(tmp_path: Path, missing: bool) -> None:
    table = pd.DataFrame(
        {
            "defence": ["none", "noise", "noise", "round"],
            "strength": ["", 0.1, 1.0, "int8"],
            "test_accuracy": [0.6, 0.5, None if missing else 0.2, 0.6],
            "good": [60, 40, None if missing else 5, 58],
            "null": [8, 7, 7, 8],
        }
    )
    draw(tmp_path, "study", Plot("tradeoff", "test_accuracy", "defence", ("good", "null")), table)
    assert (tmp_path / "study-tradeoff.png").stat().st_size > 10_000
