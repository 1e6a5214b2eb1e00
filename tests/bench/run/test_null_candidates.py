"""What the null controls are made of: as many tries and as much contrast as the attack had, and nothing else of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from attacking import victim_of

from bench.plan import registry
from bench.scoring import PROTOCOLS
from bench.scoring.evaluation import Reference, count_scores

PLUGIN = '''
from pathlib import Path

import torch

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction
from victims.spec import MLPSpec, NormalizedDescent, VictimSpec

VICTIMS = (
    VictimSpec(
        name="faces-mlp-20-tiny", dataset="faces", n=20,
        architecture=MLPSpec(hidden=(16, 16)), training=NormalizedDescent(steps=60),
    ),
)


class Params(AttackParams):
    tries: int | None = None
    contrast: float = 0.25


class Chooses(Attack):
    """Noise; chooses its tries itself, and notes those that it was given."""

    name = "chooses"
    summary = "noise"
    needs = frozenset({Knowledge.ARCHITECTURE})
    protocol = "buzaglo2023-unique"
    Params = Params

    def reconstruct(self, view, ctx):
        with Path(__file__).with_name("given").open("a") as given:
            given.write(f"{self.params.tries}\\n")
        tries = self.params.tries or 7
        noise = torch.randn(tries, *view.architecture.input_shape, generator=ctx.generator)
        return Reconstruction(candidates=noise * self.params.contrast, resolved={"tries": tries})
'''
Bench = Callable[..., Any]
QUICK = ("--controls", "quick")


@pytest.fixture
def row(bench: Bench, tmp_path: Path, results: Path) -> Callable[..., dict[str, Any]]:
    """Attack with some parameters; return the only row that says so."""
    folder = tmp_path / "choosing"
    folder.mkdir()
    (folder / "choosing.py").write_text(PLUGIN)

    def call(*args: object) -> dict[str, Any]:
        folders = ("--plugin-dir", folder, "--results-dir", results, "--force")
        ended = bench("run", "-a", "chooses", "-v", "faces-mlp-20-tiny", "--device", "cpu", *args, *folders)
        assert ended.status == 0, ended.err
        rows = pd.read_csv(results / "runs.csv").sort_values("started_utc", kind="stable")
        return dict(rows.iloc[-1])

    return call


def test_the_twins_are_attacked_with_what_the_attack_chose_on_the_victim(
    row: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    row()
    assert (tmp_path / "choosing" / "given").read_text().split() == ["None", "7", "7"]


def test_random_candidates_are_as_faint_as_the_attacks(row: Callable[..., dict[str, Any]]) -> None:
    """Candidates too faint to be seen each show the mean image; candidates of strong contrast hide it."""
    faint, strong = (row("--set", f"contrast={value}", "--set", "tries=200", *QUICK) for value in (1e-3, 10))
    assert faint["null_random"] == faint["null_mean_image"] > strong["null_random"]


def test_random_candidates_are_as_many_as_the_attacks(row: Callable[..., dict[str, Any]]) -> None:
    """Each serves one image only."""
    one, many = (row("--set", "contrast=0.001", "--set", f"tries={count}", *QUICK) for count in (1, 200))
    assert one["null_random"] <= 1 < many["null_random"]


def test_every_held_out_image_is_a_candidate(row: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    found = row(*QUICK)["null_held_out"]
    victim = victim_of(registry.victims(tmp_path / "choosing").items["faces-mlp-20-tiny"])
    protocol, held_out = PROTOCOLS["buzaglo2023-unique"], torch.from_numpy(victim.split.test_inputs)
    every, some = (
        count_scores(protocol, images, Reference.of(victim))["n_good"].n_good for images in (held_out, held_out[:20])
    )
    assert len(held_out) == 180
    assert found == every > some
