"""What the null controls are made of: as many tries and as much contrast as the attack had, and nothing else of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from attacking import victim_of

from attacks.base import Reconstruction
from bench.plan import registry
from bench.plan.run import Run
from bench.run.nulls.controls import NoControlError, NullControls, NullCounts
from bench.scoring import PROTOCOLS, Scores
from bench.scoring.evaluation import Reference, count_scores
from bench.store.good_images import decode
from victims.base import Victim

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
    first: float = 1


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
        noise[0] *= self.params.first
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
    settings = (("contrast=1e-3", "first=1e6"), ("contrast=10", "first=1"))  # one that is strong changes no median
    faint, strong = (
        row("--set", contrast, "--set", first, "--set", "tries=200", *QUICK) for contrast, first in settings
    )
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
        count_scores(protocol, Reference.of(victim).matcher(images))["n_good"].n_good
        for images in (held_out, held_out[:20])
    )
    assert len(held_out) == 180
    assert found == every > some


def test_a_kernel_machine_that_is_not_fitted_is_no_control() -> None:
    kind = registry.attacks().items["kernel-query"]
    spec = next(spec for spec in registry.victims().items.values() if spec.training.kind == "kernel")
    run = Run(kind, kind.Params(), "", "default", spec, seed=0)
    controls = NullControls(None, None, twins=True)  # type: ignore[arg-type]
    found = Reconstruction(torch.zeros(1, 1, 1, 1))
    with pytest.raises(NoControlError, match="a kernel machine that is not fitted"):
        controls.candidates("null_untrained", run, PROTOCOLS[run.protocol], found, object.__new__(Victim))


def test_the_images_of_the_strictest_null_are_those_of_the_count_that_ranks() -> None:
    """One control has more good images by the vote, another more one to one."""

    def scores(*good: int) -> Scores:
        hit, nothing = torch.tensor(good, dtype=torch.bool), torch.zeros(4)
        return Scores(PROTOCOLS["buzaglo2023"], nothing, hit, nothing.long(), nothing.long(), nothing)

    voted = {"n_good": scores(1, 1, 1, 0), "n_good_unique": scores(1, 0, 0, 0)}
    paired = {"n_good": scores(0, 0, 1, 1), "n_good_unique": scores(0, 0, 1, 1)}
    columns = NullCounts({"null_random": voted, "null_held_out": paired}, {}).columns(4)
    assert (columns["null_control"], columns["null_n_good"], columns["null_n_good_unique"]) == ("null_random", 3, 2)
    assert decode(columns["null_images"], 4).tolist() == [False, False, True, True]
    assert columns["gain_over_null"] == 1
