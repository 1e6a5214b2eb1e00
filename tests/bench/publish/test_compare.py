"""What changed between two tables, how surely, and why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from stored_runs import write_runs

from bench.publish.compare import NO_CAUSE, Comparison, compare
from bench.store.good_images import encode
from bench.store.records import COUNTS, RunRecord, Status
from victims.errors import UserError

Make = Callable[..., RunRecord]
Compare = Callable[..., Comparison]


@pytest.fixture
def compared(tmp_path: Path) -> Compare:
    """Write two tables and compare them."""

    def call(old: list[RunRecord], new: list[RunRecord]) -> Comparison:
        for name, records in (("old", old), ("new", new)):
            write_runs(tmp_path / name, records)
        return compare(tmp_path / "old" / "runs.csv", tmp_path / "new" / "runs.csv")

    return call


def good(count: int, first: int = 0) -> dict[str, Any]:
    """The columns of a run on 100 images, `count` of which are good."""
    images = np.arange(100)
    return {"n": 100, "n_good": count, "good_images": encode((first <= images) & (images < first + count))}


def only_change(found: Comparison) -> dict[str, Any]:
    """The row of the one score that changed; the gain changes with it."""
    (row,) = found.changed[found.changed["score"] != "gain"].to_dict("records")
    return dict(row)


# --- scores


def test_a_table_against_itself_is_the_same(record: Make, compared: Compare) -> None:
    rows = [
        *(record(seed=seed, **good(30 + seed)) for seed in range(3)),
        record(attack="fails", status=Status.ERROR, n_good=None, ssim_mean=None),
        record(attack="unknown", n_good=None, wall_s=None),
        record(attack="picky", status=Status.SKIPPED),
    ]
    found = compared(rows, rows)

    assert (len(found.changed), found.same) == (0, 3)
    assert (found.regressions, found.only_old, found.only_new) == ([], [], [])


def test_the_change_is_that_of_the_means_and_has_an_interval(record: Make, compared: Compare) -> None:
    old = [record(seed=seed, **good(count)) for seed, count in enumerate((20, 22))]
    new = [record(seed=seed, **good(count)) for seed, count in enumerate((50, 54))]
    row = only_change(compared(old, new))

    assert (row["cell"], row["score"], row["old"], row["new"]) == ("kkt on faces-mlp-4 (buzaglo2023)", "n_good", 21, 52)
    assert 15 < row["low"] < 31 < row["high"] < 47


def test_the_interval_tells_noise_from_change(record: Make, compared: Compare) -> None:
    """20 images gained and 15 lost are noise; 20 gained and 5 lost are not."""
    noise = only_change(compared([record(**good(40))], [record(**good(45, first=15))]))
    change = only_change(compared([record(**good(40))], [record(**good(55, first=5))]))

    assert (noise["new"] - noise["old"], change["new"] - change["old"]) == (5, 15)
    assert noise["low"] < 0 < noise["high"]
    assert 0 < change["low"] < 15 < change["high"]


@pytest.mark.parametrize(
    "changes",
    [
        {"good_images": ""},
        {"n": 101, "good_images": "0" * 26},
        {"dataset": "other"},
        {"metric_suite": "2"},
        {"protocol_version": 2},
        {"victim_key": "other"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_there_is_no_interval_where_images_cannot_be_compared(
    record: Make, compared: Compare, changes: dict[str, Any]
) -> None:
    told = {"victim_key": "one", **good(40)}
    row = only_change(compared([record(**told)], [record(**(told | good(30) | changes))]))

    assert (row["old"], row["new"]) == (40, 30)
    assert np.isnan([row["low"], row["high"]]).all()


def test_a_score_that_vanishes_is_a_change(record: Make, compared: Compare) -> None:
    found = compared([record(ssim_top10=0.5)], [record(ssim_top10=None)])

    assert found.changed["score"].tolist() == ["ssim_top10"]
    assert found.same == 0


@pytest.mark.parametrize("score", [*COUNTS, "ssim_top10", "mse_mean"])
@pytest.mark.parametrize("new", [5005, 4995])
def test_a_change_of_a_thousandth_is_a_change_of_any_score(
    record: Make, compared: Compare, score: str, new: int
) -> None:
    unit = 1 if score in COUNTS else 1e-4
    row = only_change(compared([record(**{score: 5000 * unit})], [record(**{score: new * unit})]))

    assert (row["score"], row["old"], row["new"]) == (score, pytest.approx(5000 * unit), pytest.approx(new * unit))


def test_only_the_count_has_an_interval(record: Make, compared: Compare) -> None:
    found = compared([record(ssim_top10=0.5, **good(40))], [record(ssim_top10=0.6, **good(60))]).changed
    ends = found.set_index("score")[["low", "high"]]

    assert ends.loc["ssim_top10"].isna().all()
    assert 0 < ends.loc["n_good", "low"] < 20 < ends.loc["n_good", "high"]


def test_seconds_may_vary_a_little(record: Make, compared: Compare) -> None:
    assert compared([record(wall_s=10)], [record(wall_s=10.5)]).same == 1
    assert only_change(compared([record(wall_s=10)], [record(wall_s=15)]))["score"] == "wall_s"


# --- cells


def test_what_only_one_table_holds_is_listed(record: Make, compared: Compare) -> None:
    found = compared([record(), record(attack="gone")], [record(), record(attack="fresh", variant="paper")])

    assert [*map(str, found.only_old)] == ["gone on faces-mlp-4 (buzaglo2023)"]
    assert found.only_new == ["fresh:paper on faces-mlp-4 (buzaglo2023): gain +2, level with gone +2, kkt +2"]
    assert found.same == 1


def test_a_changed_default_is_the_same_cell(record: Make, compared: Compare) -> None:
    old = record(params_hash="a", params_json='{"steps": 10, "lr": 0.1, "gone": 1}', **good(20))
    new = record(params_hash="b", params_json='{"steps": 20, "lr": 0.1}', **good(60))
    found = compared([old], [new])

    assert only_change(found)["cause"] == "parameters gone 1 -> None, steps 10 -> 20"
    assert only_change(found)["low"] > 0
    assert (found.only_old, found.only_new) == ([], [])


def test_a_new_metric_suite_is_the_same_cell(record: Make, compared: Compare) -> None:
    row = only_change(compared([record(metric_suite="1", n_good=3)], [record(metric_suite="2", n_good=2)]))

    assert (row["old"], row["new"], row["cause"]) == (3, 2, "metric suite 1 -> 2")


@pytest.mark.parametrize("name", ["attack", "variant", "victim", "protocol"])
@pytest.mark.parametrize("more", [{}, {"params_hash": "b"}, {"metric_suite": "2"}], ids=["alone", "params", "suite"])
def test_what_else_differs_is_another_cell(record: Make, compared: Compare, name: str, more: dict[str, Any]) -> None:
    found = compared([record()], [record(**{name: "other"}, **more)])

    assert (len(found.changed), found.same, len(found.only_old), len(found.only_new)) == (0, 0, 1, 1)


def test_the_same_parameters_go_before_changed_ones(record: Make, compared: Compare) -> None:
    old = [record(params_hash="a", n_good=1), record(params_hash="b", n_good=2)]
    new = [record(params_hash="b", n_good=2), record(params_hash="c", n_good=3)]
    row = only_change(compared(old, new))

    assert (row["old"], row["new"], row["cell"]) == (1, 3, "kkt on faces-mlp-4 (buzaglo2023, c)")


def test_what_could_be_matched_in_two_ways_is_not(record: Make, compared: Compare) -> None:
    found = compared([record(params_hash="a")], [record(params_hash="b"), record(params_hash="c")])

    assert (len(found.changed), found.same) == (0, 0)
    assert [*map(str, found.only_old)] == ["kkt on faces-mlp-4 (buzaglo2023, a)"]
    names = [name.partition(":")[0] for name in found.only_new]
    assert names == [f"kkt on faces-mlp-4 (buzaglo2023, {name})" for name in "bc"]


# --- causes


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"attack_sha": "b"}, "attack source"),
        ({"attack_sha": ""}, "one table does not tell: attack source"),
        ({"victim_sha": "b"}, "victim weights"),
        ({"metric_suite": "2"}, "metric suite 1 -> 2"),
        ({"torch": "3"}, "torch 2 -> 3"),
        ({"bench_version": "1", "git_commit": "f00"}, "bench version 0 -> 1 f00"),
        ({"device": "cuda", "gpu": "H200"}, "hardware cpu Difference Engine -> cuda Difference Engine H200"),
        ({"seed": 1}, "seeds 0 -> 1"),
        ({}, NO_CAUSE),
        ({"attack_sha": "b", "torch": "3"}, "attack source; torch 2 -> 3"),
    ],
)
def test_the_cause_is_what_differs(record: Make, compared: Compare, changes: dict[str, Any], cause: str) -> None:
    known = {"attack_sha": "a", "victim_sha": "a"}

    assert only_change(compared([record(**known)], [record(**(known | {"n_good": 2} | changes))]))["cause"] == cause


def test_more_seeds_are_a_cause(record: Make, compared: Compare) -> None:
    new = [record(seed=seed, n_good=2) for seed in range(3)]

    assert only_change(compared([record()], new))["cause"] == "seeds 0 -> 0,1,2"


def test_parameters_that_are_none_are_one_line(record: Make, compared: Compare) -> None:
    with pytest.raises(UserError, match="params_json of kkt on faces-mlp-4 is no JSON object: oops"):
        compared([record()], [record(params_json="oops")])


# --- regressions


@pytest.mark.parametrize(
    ("old", "new", "worse"),
    [
        (good(60), good(20), "n_good fell from 60 to 20"),
        (good(20), good(60), ""),
        (good(60), good(57), ""),  # three images are noise
        ({"n_good": 3}, {"n_good": 2}, "n_good fell from 3 to 2"),  # nothing tells whether that is noise
        ({"n_good": 3}, {"n_good": None}, "n_good fell from 3 to nan"),
        ({"n_good": None}, {"n_good": 3}, ""),
        ({"n_good": 3}, {"n_good": 2, "metric_suite": "2"}, ""),
        (good(60), {**good(20), "protocol_version": 2}, ""),
        ({"n_good": 1}, {"status": Status.ERROR, "n_good": None}, "every run fails"),  # its null is 1 as well
        ({"status": Status.ERROR, "n_good": None}, {"status": Status.ERROR, "n_good": None}, ""),
        ({"ssim_top10": 0.9}, {"ssim_top10": 0.1}, ""),
    ],
)
def test_a_regression_is_a_fall_that_is_no_noise(
    record: Make, compared: Compare, old: dict[str, Any], new: dict[str, Any], worse: str
) -> None:
    found = compared([record(**old)], [record(**new)])

    assert found.regressions == ([f"kkt on faces-mlp-4 (buzaglo2023): {worse}"] if worse else [])


def test_one_seed_of_three_that_fails_is_told(record: Make, compared: Compare) -> None:
    fine = [record(seed=seed, n=100, n_good=50, good_images=encode(np.arange(100) < 50)) for seed in range(3)]
    broken = [*fine[:2], record(seed=2, n=100, n_good=None, status=Status.ERROR)]
    found = compared(fine, broken)

    scores = found.changed.set_index("score")[["old", "new"]].T.to_dict("list")
    assert scores["n_good"] == [50, pytest.approx((50 + 50 + 1) / 3)]
    assert scores["failed"] == [0, 1]
    # one failure of three is within the luck of the seeds, and enough that the gain may be 0
    assert found.regressions == [
        "kkt on faces-mlp-4 (buzaglo2023): its gain was surely above 0 (49) and is no longer (32.6667)"
    ]


def test_an_earlier_schema_is_compared(record: Make, compared: Compare, tmp_path: Path) -> None:
    compared([record(metric_suite="1", n_good=3)], [record(metric_suite="2", n_good=2, good_images="c")])
    path = tmp_path / "old" / "runs.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False).drop(columns=["good_images", "attack_sha", "control"])
    table.assign(schema_version="1").to_csv(path, index=False)

    assert only_change(compare(path, tmp_path / "new" / "runs.csv"))["cause"] == "metric suite 1 -> 2"
