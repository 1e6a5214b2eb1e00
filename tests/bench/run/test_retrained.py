"""Retrained victims: other seeds and other images under one name, in rows of their own, averaged on the board."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from stored_runs import stored

from bench.store.good_images import decode
from bench.store.records import ONE_TO_ONE

Bench = Callable[..., Any]
LIGHT = ("--set", "steps=20", "--set", "restarts=2", "--controls", "quick")


def test_retrainings_are_rows_and_one_cell(run: Bench, results: Path) -> None:
    ended = run("-a", "kkt", *LIGHT, "--seeds", "0-1", "--victim-seeds", "0-2")
    assert (ended.status, ended.err) == (0, "")
    rows = stored(results)

    assert set(rows["victim"]) == {"faces-mlp-4-tiny"}
    assert rows[["victim_seed", "seed"]].to_numpy().tolist() == [[k, s] for k in range(3) for s in range(2)]
    assert rows["victim_key"].nunique() == 1 and rows["victim_key"].str.fullmatch("[0-9a-f]{16}").all()
    assert rows.groupby("victim_seed")["victim_sha"].nunique().tolist() == [1, 1, 1]
    assert rows["victim_sha"].nunique() == 3
    assert set(rows["family"]) == {"two classes"}
    assert any("faces-mlp-4-tiny@2" in run_id for run_id in rows["run_id"])
    (row,) = pd.read_csv(results / "leaderboard.csv").to_dict("records")
    assert (row["seeds"], row["trainings"], row["seed"]) == (6, 3, "0;1")
    assert [pair.partition("=")[0] for pair in row["weights"].split(";")] == ["0", "1", "2"]

    again = run("-a", "kkt", *LIGHT, "--seeds", "0-1", "--victim-seeds", "0-2")
    assert again.out.count("stored; --force runs it again") == 6


def test_a_retraining_is_scored_again_as_itself(run: Bench, bench: Bench, results: Path, plugins: Path) -> None:
    run("-a", "first-layer", "--controls", "quick", "--victim-seeds", "1")
    before = stored(results)
    scored = bench("score", "--controls", "quick", "--plugin-dir", plugins, "--results-dir", results, "--device", "cpu")

    assert (scored.status, scored.err) == (0, "")
    after = stored(results)
    columns = ["victim", "victim_seed", "victim_sha", "n_good", "ssim_mean", "null_n_good", "good_images"]
    assert after[columns].to_numpy().tolist() == before[columns].to_numpy().tolist()


def test_a_retraining_is_chosen_by_its_own_name(run: Bench, bench: Bench, results: Path, plugins: Path) -> None:
    run("-a", "first-layer", "--controls", "quick", "--victim-seeds", "0-1")
    folders = ("--plugin-dir", plugins, "--results-dir", results)
    scored = bench("score", "-v", "faces-mlp-4-tiny@1", *folders, "--device", "cpu")
    assert (scored.status, scored.out.count("good (")) == (0, 1) and "@1" in scored.out
    assert "no stored run" in bench("score", "-v", "faces-mlp-4-tiny@2", *folders).err


@pytest.mark.parametrize("text", ["x", "-1", "", "0-9999,10000-19999"])
def test_no_seeds_are_a_mistake(run: Bench, text: str) -> None:
    ended = run("-a", "first-layer", "--victim-seeds", text)
    assert ended.status == 2
    assert "--victim-seeds" in ended.err and "is no list of seeds" in ended.err


def test_a_row_tells_which_images_are_good_one_to_one_and_in_its_null(run: Bench, results: Path) -> None:
    run("-a", "kkt", *LIGHT)
    (row,) = stored(results).to_dict("records")

    for mask, count in (("one_to_one_images", ONE_TO_ONE), ("null_images", f"null_{ONE_TO_ONE}")):
        assert decode(row[mask], row["n"]).sum() == int(row[count])
    (cell,) = pd.read_csv(results / "leaderboard.csv").to_dict("records")
    assert cell["gain"] == int(row[ONE_TO_ONE]) - int(row[f"null_{ONE_TO_ONE}"])
    assert cell["gain_low"] < cell["gain"] < cell["gain_high"]


def test_other_weights_under_one_definition_are_told(run: Bench, results: Path) -> None:
    """As when a victim was trained again between two runs: its hash in a stored row is another one."""
    run("-a", "first-layer", "--controls", "quick")
    (path,) = results.glob("runs/*/run.json")
    weights = stored(results)["victim_sha"][0]
    path.write_text(path.read_text().replace(weights, "f" * 64))
    ended = run("-a", "random", "--controls", "quick")

    assert ended.status == 1
    assert "faces-mlp-4-tiny: attacks met different weights under one definition" in ended.out
    assert "--force runs the others again" in ended.out
    assert set(pd.read_csv(results / "leaderboard.csv", keep_default_na=False)["rank"]) == {""}


def test_weights_of_a_published_row_may_round_otherwise(run: Bench, results: Path) -> None:
    """As on a fresh clone: runs.csv holds a row of another machine, whose run is not stored here."""
    run("-a", "first-layer", "--controls", "quick")
    table, weights = results / "runs.csv", stored(results)["victim_sha"][0]
    table.write_text(table.read_text().replace(weights, "f" * 64))
    shutil.rmtree(results / "runs")
    ended = run("-a", "random", "--controls", "quick")

    assert ended.status == 0
    assert "attacks met different weights under one definition" in ended.out
    assert "trained elsewhere; --results-dir keeps yours apart" in ended.out
    assert set(pd.read_csv(results / "leaderboard.csv", keep_default_na=False)["rank"]) == {""}
