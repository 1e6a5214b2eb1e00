"""What `compare` says of the gain that ranks, of counts one to one, and of tables that hold different trainings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from stored_runs import write_runs

from bench.cli import comparisons
from bench.publish.compare import Comparison, compare
from bench.publish.leaderboard import write_tables
from bench.store.good_images import encode
from bench.store.records import RunRecord, Status

Make = Callable[..., RunRecord]
Compare = Callable[..., Comparison]
NAME = "kkt on faces-mlp-4 (buzaglo2023)"
IMAGES = np.arange(100)


@pytest.fixture
def compared(tmp_path: Path) -> Compare:
    """Write two tables and compare them by their runs, or by the files that are named."""

    def call(old: list[RunRecord], new: list[RunRecord], *files: str) -> Comparison:
        for name, records in (("old", old), ("new", new)):
            (write_tables if files else write_runs)(tmp_path / name, records)
        first, second = files or ("runs.csv", "runs.csv")
        return compare(tmp_path / "old" / first, tmp_path / "new" / second)

    return call


def ranked(found: int, null: int = 0, many: int = 80, first: int = 0) -> dict[str, Any]:
    """The columns of a run on 100 images: good ones one to one, those of the strictest null, and good ones at all."""
    one_to_one = (first <= IMAGES) & (first + found > IMAGES)
    counts = {"n_good": many, "n_good_unique": found, "null_n_good": null, "null_n_good_unique": null}
    masks = {"good_images": many > IMAGES, "one_to_one_images": one_to_one, "null_images": 100 - null <= IMAGES}
    return {"n": 100, **counts, **{name: encode(mask) for name, mask in masks.items()}}


def change(found: Comparison, score: str) -> tuple[float, ...]:
    (row,) = found.changed[found.changed["score"] == score].to_dict("records")
    return tuple(row[name] for name in ("old", "new", "low", "high"))


# --- the gain


@pytest.mark.parametrize("file", ["runs.csv", "leaderboard.csv"])
def test_a_null_that_rises_takes_the_gain(record: Make, compared: Compare, file: str) -> None:
    found = compared([record(**ranked(60, null=10))], [record(**ranked(60, null=58))], file, file)

    assert change(found, "null_n_good_unique")[:2] == (10, 58)
    old, new, low, high = change(found, "gain")
    assert (old, new) == (50, 2) and low < -48 < high < 0
    assert found.regressions == [
        f"{NAME}: its gain was surely above 0 (50) and is no longer (2); its null control rose from 10 to 58"
    ]


def test_a_gain_that_surely_fell_is_a_regression(record: Make, compared: Compare) -> None:
    found = compared([record(**ranked(60))], [record(**ranked(60, null=30))])

    assert found.regressions == [f"{NAME}: its gain fell from 60 to 30; its null control rose from 0 to 30"]


def test_a_gain_that_fell_by_noise_is_none(record: Make, compared: Compare) -> None:
    found = compared([record(**ranked(60))], [record(**ranked(60, null=2))])

    assert change(found, "gain")[:2] == (60, 58)
    assert found.regressions == []


def test_a_gain_of_other_images_or_metrics_is_no_regression(record: Make, compared: Compare) -> None:
    for changes in ({"metric_suite": "2"}, {"dataset": "other"}, {"protocol_version": 2}):
        found = compared([record(**ranked(60))], [record(**ranked(60, null=60), **changes)])
        assert found.regressions == []
        assert np.isnan(change(found, "gain")[2:]).all()


def test_a_gain_of_a_leaderboard_that_leaves_its_ends_is_not_sure(
    record: Make, compared: Compare, tmp_path: Path
) -> None:
    compared([record(**ranked(60))], [record(**ranked(60))], "leaderboard.csv", "leaderboard.csv")
    path = tmp_path / "new" / "leaderboard.csv"
    pd.read_csv(path, dtype=str, keep_default_na=False).assign(gain="3", rank="").to_csv(path, index=False)
    found = compare(tmp_path / "old" / "leaderboard.csv", path)

    assert change(found, "gain")[:2] == (60, 3)
    assert found.regressions == [f"{NAME}: its gain was surely above 0 (60) and is no longer (3)"]


def test_a_count_that_its_list_of_images_does_not_have_stands(record: Make, compared: Compare) -> None:
    new = ranked(60, null=10) | {"null_n_good_unique": 60}
    found = compared([record(**ranked(60, null=10))], [record(**new)])

    assert change(found, "gain")[:2] == (50, 0)
    assert found.regressions == [
        f"{NAME}: its gain was surely above 0 (50) and is no longer (0); its null control rose from 10 to 60"
    ]


def test_a_count_one_to_one_has_an_interval_and_its_fall_is_a_regression(record: Make, compared: Compare) -> None:
    old, new = ({**ranked(found), "null_n_good": None, "null_n_good_unique": None} for found in (60, 20))
    found = compared([record(**old)], [record(**new)])

    before, after, low, high = change(found, "n_good_unique")
    assert (before, after) == (60, 20) and low < -40 < high < 0
    assert found.regressions == [f"{NAME}: n_good_unique fell from 60 to 20"]


def test_a_failure_has_as_many_one_to_one_as_its_null_has_one_to_one(record: Make, compared: Compare) -> None:
    failed = {"status": Status.ERROR, "n": 100, "n_good": None, "null_n_good": 30, "null_n_good_unique": 10}
    old, new = ([record(**ranked(found)), record(seed=1, **failed)] for found in (60, 20))
    before, after, low, high = change(compared(old, new), "n_good_unique")
    assert (before, after) == (35, 15)
    assert low < -20 < high


# --- what chance gets


@pytest.mark.parametrize("file", ["runs.csv", "leaderboard.csv"])
@pytest.mark.parametrize(
    ("old", "new", "worse", "by_chance"),
    [
        ((60, 60), (20, 70), "", "n_good fell from 60 to 20 (null 60, 70)"),
        ((60, 59), (20, 70), "n_good fell from 60 to 20", ""),
        ((60, 70), (20, 19), "n_good fell from 60 to 20", ""),
        ((60, None), (20, 70), "n_good fell from 60 to 20", ""),
        ((20, 60), (60, 70), "", ""),
    ],
    ids=["at its null", "above it before", "above it now", "without one before", "a rise"],
)
def test_a_fall_of_what_chance_gets_in_both_is_no_regression(
    record: Make,
    compared: Compare,
    file: str,
    old: tuple[int, int | None],
    new: tuple[int, int | None],
    worse: str,
    by_chance: str,
) -> None:
    """A count and its null control; the count one to one, and so the gain, stays."""

    def made(counts: tuple[int, int | None]) -> RunRecord:
        return record(**ranked(30, many=counts[0]) | {"null_n_good": counts[1]})

    found = compared([made(old)], [made(new)], file, file)

    assert found.regressions == ([f"{NAME}: {worse}"] if worse else [])
    assert found.by_chance == ([f"{NAME}: {by_chance}"] if by_chance else [])
    assert f"at or below its null in both: {NAME}" in comparisons.text(found) or not by_chance


def test_a_fall_one_to_one_of_what_chance_gets_is_no_regression(record: Make, compared: Compare) -> None:
    """The gain falls surely, from 0 to far below."""
    found = compared([record(**ranked(60, null=60))], [record(**ranked(20, null=60))])

    assert change(found, "gain")[3] < 0
    assert found.regressions == []
    assert found.by_chance == [f"{NAME}: n_good_unique fell from 60 to 20 (null 60, 60)"]


def test_a_fall_to_chance_is_a_regression_of_all(record: Make, compared: Compare) -> None:
    """One to one it lies at its null control in both, but more than chance of it was good before."""
    old, new = (record(**ranked(10, null=10, many=many) | {"null_n_good": 20}) for many in (60, 20))
    found = compared([old], [new])

    assert found.regressions == [f"{NAME}: n_good fell from 60 to 20"]
    assert found.by_chance == []


# --- other trainings


def trained(make: Make, counts: dict[int, int], **changes: Any) -> list[RunRecord]:
    return [
        make(
            victim_seed=seed, victim_sha=f"{seed}" * 64, ssim_top10=found / 100, **ranked(found, many=found), **changes
        )
        for seed, found in counts.items()
    ]


@pytest.mark.parametrize("file", ["runs.csv", "leaderboard.csv"])
def test_only_trainings_that_both_have_are_compared(record: Make, compared: Compare, file: str) -> None:
    found = compared(trained(record, {0: 90, 1: 88, 3: 50}), trained(record, {3: 50, 4: 20}), file, file)

    assert (len(found.changed), found.same, found.regressions) == (0, 1, [])
    assert found.in_part == [f"{NAME}, on the trainings that both have: 3"]


@pytest.mark.parametrize("file", ["runs.csv", "leaderboard.csv"])
def test_old_new_and_interval_are_those_of_the_common_trainings(record: Make, compared: Compare, file: str) -> None:
    found = compared(trained(record, {0: 90, 3: 50}), trained(record, {3: 20, 4: 99}), file, file)

    old, new, low, high = change(found, "n_good")
    assert (old, new) == (50, 20) and low < -30 < high < 0
    assert set(found.changed["score"]) <= {"n_good", "n_good_unique", "gain"}
    assert set(found.changed["cause"]) == {"none of the recorded causes"}
    assert found.regressions == [f"{NAME}: n_good fell from 50 to 20, on the trainings that both have: 3"]


@pytest.mark.parametrize("file", ["runs.csv", "leaderboard.csv"])
def test_without_a_common_training_nothing_is_compared(record: Make, compared: Compare, file: str) -> None:
    old, new = trained(record, {0: 90, 1: 88}), trained(record, {3: 0, 4: 20})
    found = compared(old, new, file, file)

    assert (len(found.changed), found.same, found.regressions) == (0, 0, [])
    assert found.not_comparable == [f"{NAME}: no training in common"]


def test_trainings_of_unknown_images_are_not_comparable(record: Make, compared: Compare) -> None:
    plain = {"good_images": "", "one_to_one_images": ""}
    tables = [[run.model_copy(update=plain) for run in trained(record, counts)] for counts in ({0: 90, 1: 88}, {1: 88})]
    found = compared(*tables, "leaderboard.csv", "leaderboard.csv")

    assert found.not_comparable == [f"{NAME}: a table does not tell the scores of the trainings that both have"]


def test_a_training_that_fails_alone_does_not_fail_those_that_are_gone(record: Make, compared: Compare) -> None:
    failed = {"status": Status.ERROR, "n": 100, "n_good": None, "null_n_good": None}
    broken = record(victim_seed=1, **failed)

    assert compared([*trained(record, {0: 50}), broken], [broken]).regressions == []
    assert compared(trained(record, {0: 50}), [record(**failed)]).regressions == [f"{NAME}: every run fails"]


# --- what holds of all


def test_an_interval_holds_the_change_beside_it(record: Make, compared: Compare) -> None:
    random = np.random.default_rng(0)
    for _ in range(5):
        old, new = (
            trained(record, {int(seed): int(random.integers(100)) for seed in random.permutation(4)[:2]})
            for _ in range(2)
        )
        rows = compared(old, new).changed.dropna(subset="low")
        assert ((rows["low"] <= rows["new"] - rows["old"]) & (rows["new"] - rows["old"] <= rows["high"])).all()


def test_a_new_attack_is_level_with_those_it_does_not_surely_differ_from(record: Make, compared: Compare) -> None:
    rivals = {"far": 60, "near": 32, "none": 1, "same": 30}
    old = [record(attack=name, **ranked(found, first=30)) for name, found in rivals.items()]
    old[0] = old[0].model_copy(update={"variant": "wide"})
    old.append(record(attack="scored otherwise", protocol="assigned", **ranked(40, first=30)))
    new = [record(attack="mine", **ranked(30, first=30))]

    (line,) = compared(old, new).only_new
    assert line.endswith("gain +30, behind far:wide +60; level with near +32, same +30; ahead of none +1")
    (line,) = compared(old, new, "leaderboard.csv", "runs.csv").only_new
    assert line.endswith("gain +30, behind far:wide +60, near +32; level with same +30; ahead of none +1")


@pytest.mark.parametrize(("weights", "told"), [("1" * 64, False), ("2" * 64, True)])
def test_a_new_attack_says_whether_the_others_met_other_weights(
    record: Make, compared: Compare, weights: str, told: bool
) -> None:
    old = [record(attack="other", victim_sha="1" * 64, **ranked(30))]
    (line,) = compared(old, [record(attack="mine", victim_sha=weights, **ranked(30))]).only_new
    assert ("(on other weights)" in line) == told


def test_a_gain_that_the_common_training_never_showed_is_not_lost(record: Make, compared: Compare) -> None:
    """Over both trainings it is surely above 0, on the second alone it may be 0 before and after."""
    old, new = trained(record, {0: 8, 1: 4}), trained(record, {1: 2})
    found = compared(old, new)
    assert change(found, "gain")[:2] == (4, 2)
    assert found.regressions == []


@pytest.mark.parametrize("form", ["markdown", "csv", "text"])
def test_every_format_says_what_is_compared_in_part_or_not_at_all(
    bench: Callable[..., Any], record: Make, compared: Compare, tmp_path: Path, form: str
) -> None:
    compared(
        [*trained(record, {0: 90, 1: 88}), *trained(record, {0: 90}, attack="other")],
        [*trained(record, {1: 88}), *trained(record, {1: 90}, attack="other")],
    )
    ended = bench("compare", tmp_path / "old", tmp_path / "new", "--format", form, "--fail-on-regression")

    assert (ended.status, ended.err) == (0, "")
    for words in ("compared in part", "the trainings that both have: 1", "not comparable", "no training in common"):
        assert words in ended.out
