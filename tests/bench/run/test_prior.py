"""Victims with a prior, from the command line to the row and the study's picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

Bench = Callable[..., Any]

PLUGIN = """
from attacks.studies.base import Cell, Plot, Study
from victims.informed.spec import DenseSpec, Descent, InformedSpec
from victims.recipes import Privacy

def victim(name, epsilon, prior=4, rate=None):
    privacy = Privacy(clip=0.3, epsilon=epsilon, sampling_rate=rate)
    return InformedSpec(
        name=name, dataset="digits", n=20, targets=16, architecture=DenseSpec(hidden=(4,)),
        training=Descent(lr=2, momentum=0, epochs=8, privacy=privacy), prior=prior,
    )

VICTIMS = (
    victim("digits-elu4-20-loud", 0.5), victim("digits-elu4-20-quiet", 1e5),
    victim("digits-elu4-20-drawn", 3, rate=0.3),
)
SIGHTS = ("trace", {}), ("model", {"evidence": "weights"})
STUDIES = (
    Study(
        name="tiny-trace", summary="tiny", paper="nobody, 2026", smoke=(),
        cells=tuple(
            Cell({"epsilon": epsilon, "sees": sees, "training": title}, "prior-aware", f"digits-elu4-20-{name}", params)
            for sees, params in SIGHTS
            for name, epsilon, title in (("loud", 0.5, "full"), ("quiet", 1e5, "full"), ("drawn", 3.0, "sampled"))
        ),
        plots=(Plot("bounded", "epsilon", "training", ("success", "bound", "bound_zcdp", "chance"), logarithmic=True),),
    ),
)
"""


@pytest.fixture
def folders(tmp_path: Path, results: Path) -> tuple[object, ...]:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "traced.py").write_text(PLUGIN)
    return ("--plugin-dir", tmp_path / "plugins", "--results-dir", results)


def test_rows_are_scored_by_which_of_n_beside_chance(bench: Bench, folders: tuple[object, ...], results: Path) -> None:
    cheap = ("--set", "shadows=30", "--set", "epochs=2")
    chosen = ("-v", "digits-elu4-20-quiet", "-v", "digits-elu10-200", "--device", "cpu")
    assert bench("run", "-a", "prior-aware", *chosen, *folders).status == 0
    assert bench("run", "-a", "reconn", "-v", "digits-elu4-20-quiet", *cheap, *folders).status == 0
    rows = pd.read_csv(results / "runs.csv").set_index(["attack", "victim"])
    named = rows.loc["prior-aware", "digits-elu4-20-quiet"]
    assert (named["n_good"], named["protocol"], named["null_mean_image"]) == (16, "hayes2023", 4)
    assert named["mse_mean"] == 0
    assert rows.loc["reconn", "digits-elu4-20-quiet"]["protocol"] == "hayes2023"
    skipped = rows.loc["prior-aware", "digits-elu10-200"]
    assert skipped["status"] == "skipped" and "no trace of its training is released" in skipped["reason"]


def test_a_row_of_another_victim_is_not_scored_by_which_of_n(bench: Bench, results: Path) -> None:
    bench("run", "-a", "glm", "-v", "cancer-logistic", "--results-dir", results)
    ended = bench("score", "--protocol", "hayes2023", "--results-dir", results)
    assert ended.status == 1
    assert "this victim has no prior" in ended.err + ended.out and "Traceback" not in ended.err + ended.out


def test_a_study_sets_what_was_named_beside_its_bound(bench: Bench, folders: tuple[object, ...], results: Path) -> None:
    ended = bench("study", "tiny-trace", *folders)
    assert ended.status == 0, ended.err
    root = results / "studies" / "tiny-trace"
    table = pd.read_csv(root / "tiny-trace.csv")
    assert (table["chance"] == 0.25).all() and (table["null_success"] >= 0.25).all()
    assert (table["success_low"] <= table["bound"]).all()
    assert (table["bound"] <= table["bound_zcdp"].fillna(1) + 1e-9).all()
    full = table[table["training"] == "full"]
    assert full["bound_zcdp"].notna().all() and table["bound_zcdp"].isna().sum() == 2
    traced = table[table["sees"] == "trace"].set_index("epsilon")
    assert traced.loc[1e5, "success"] == 1 and traced.loc[0.5, "success"] < 1
    assert (root / "tiny-trace-bounded.png").read_bytes().startswith(b"\x89PNG")


def test_the_verb_privacy_leaves_victims_with_a_prior_to_the_study(
    bench: Bench, folders: tuple[object, ...], results: Path
) -> None:
    bench("run", "-a", "prior-aware", "-v", "digits-elu4-20-drawn", *folders)
    ended = bench("privacy", *folders)
    assert ended.status == 2 and "is of a differentially private victim" in ended.err


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ("prior=1", "greater than or equal to 2"),
        ("prior=3", "no multiple of the prior's 3 records"),
        ("rate=1.5", "less than 1"),
    ],
)
def test_a_prior_that_cannot_be_is_one_line(
    bench: Bench, folders: tuple[object, ...], tmp_path: Path, changed: str, message: str
) -> None:
    plugin = tmp_path / "plugins" / "traced.py"
    plugin.write_text(PLUGIN.replace("0.5),", f"0.5, {changed}),", 1))
    ended = bench("list", *folders[:2])
    assert message in ended.out + ended.err and "Traceback" not in ended.out + ended.err
