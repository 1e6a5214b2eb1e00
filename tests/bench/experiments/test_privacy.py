"""The verb `privacy`: measured success of stored runs beside the bounds on any attack."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.experiments import rero
from bench.plan import registry
from victims.informed.data import split_of

Bench = Callable[..., Any]

PLUGIN = """
from victims.informed.spec import GLMArchitecture, GLMSpec, Newton, OutputPrivacy

VICTIMS = tuple(
    GLMSpec(
        name=f"digits-logistic-eps{name}",
        dataset="digits",
        n=100,
        targets=20,
        architecture=GLMArchitecture(intercept="penalised"),
        training=Newton(
            strength=100,
            convention="half-lambda",
            privacy=OutputPrivacy(epsilon=float(name)) if name != "inf" else None,
        ),
    )
    for name in ("2", "4e9", "inf")
)
"""


@pytest.fixture
def folders(tmp_path: Path, results: Path) -> tuple[object, ...]:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "private.py").write_text(PLUGIN)
    return ("--plugin-dir", tmp_path / "plugins", "--results-dir", results)


def test_success_lies_under_the_bound_and_grows_with_epsilon(
    bench: Bench, folders: tuple[object, ...], results: Path
) -> None:
    chosen = [word for name in ("2", "4e9", "inf") for word in ("-v", f"digits-logistic-eps{name}")]
    bench("run", "-a", "glm", *chosen, "--device", "cpu", *folders)
    ended = bench("privacy", "--threshold", "0.005", *folders)
    assert ended.status == 0, ended.err
    table = pd.read_csv(results / "privacy.csv")
    assert table["epsilon"].tolist() == [2, 4e9]  # the third victim is not private
    assert (table["success"] <= table["bound_gaussian"]).all()
    assert (table["bound_gaussian"] <= table["bound_zcdp"] + 1e-9).all()
    assert table["success"].tolist() == [0, 1]
    assert table["test_accuracy"].notna().all()
    assert (results / "privacy.png").read_bytes().startswith(b"\x89PNG")


def test_a_retraining_is_a_row_beside_the_bounds_of_its_own_targets(
    bench: Bench, folders: tuple[object, ...], results: Path
) -> None:
    bench("run", "-a", "glm", "-v", "digits-logistic-eps4e9", "--victim-seeds", "0-1", "--device", "cpu", *folders)
    assert bench("privacy", "--threshold", "0.01", *folders).status == 0
    table = pd.read_csv(results / "privacy.csv")
    assert table["victim_seed"].tolist() == [0, 1]

    spec = registry.victims(Path(str(folders[1]))).items["digits-logistic-eps4e9"]
    splits = [split_of(spec.retrained(seed), None).targets.images.reshape(20, -1) for seed in (0, 1)]
    kappas = [rero.kappa_sample(targets, math.sqrt(0.01 * targets.shape[1])) for targets in splits]
    assert kappas[0] != kappas[1]
    assert table["kappa"].tolist() == pytest.approx(kappas)


def test_runs_of_another_budget_are_a_curve_of_their_own(
    bench: Bench, folders: tuple[object, ...], results: Path
) -> None:
    for budget in ((), ("--budget", "60s")):
        bench("run", "-a", "glm", "-v", "digits-logistic-eps2", "--device", "cpu", *budget, *folders)
    assert bench("privacy", *folders).status == 0
    table = pd.read_csv(results / "privacy.csv", keep_default_na=False)
    assert table["budget"].tolist() == ["", "60s"]


def test_errors_that_are_not_those_of_all_targets_are_one_line(
    bench: Bench, folders: tuple[object, ...], results: Path
) -> None:
    bench("run", "-a", "glm", "-v", "digits-logistic-eps2", "--device", "cpu", *folders)
    (path,) = results.glob("runs/*/per_sample.csv")
    table = pd.read_csv(path)
    for damaged in (table[:0], table[:7], table.assign(mse=math.nan), table.assign(mse="a")):
        damaged.to_csv(path, index=False)
        ended = bench("privacy", *folders)
        assert (ended.status, ended.err.count("\n")) == (2, 1)
        assert "per_sample.csv cannot be read" in ended.err and "`score` writes it again" in ended.err


def test_mistakes_are_one_line(bench: Bench, folders: tuple[object, ...], results: Path) -> None:
    for words, line in (
        (("privacy",), "is of a differentially private victim"),
        (("privacy", "--threshold", "0"), "must be positive"),
    ):
        ended = bench(*words, *folders)
        assert ended.status == 2 and line in ended.err and "Traceback" not in ended.err
