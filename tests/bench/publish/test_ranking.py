"""Boards: who competes with whom, who has a rank, and which."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from bench.publish.leaderboard import leaderboard
from bench.publish.ranking import Board, boards, gains, samples, unsuccessful
from bench.publish.runs_table import defined
from bench.publish.statistics import count_interval
from bench.store.good_images import encode
from bench.store.records import RunRecord, ScoreState, Status

Make = Callable[..., RunRecord]
A, B, C = "architecture", "labels", "weights"


def table(records: list[RunRecord]) -> pd.DataFrame:
    return pd.DataFrame([record.model_dump(mode="json") for record in records])


def boards_of(records: list[RunRecord], across_knowledge: bool = False) -> list[Board]:
    return boards(leaderboard(table(records)), gains(table(records)), across_knowledge)


def ranked(board: Board) -> dict[str, str]:
    return dict(zip(board.rows["attack"], board.rows["rank"], strict=True))


def good_images(mask: np.ndarray, null: np.ndarray | None = None) -> dict[str, object]:
    """The columns of a run on some images, which are good one to one; and those of its null control."""
    nulls = np.zeros_like(mask) if null is None else null
    counts = {"n_good": int(mask.sum()), "n_good_unique": int(mask.sum()), "null_n_good_unique": int(nulls.sum())}
    masks = {"good_images": encode(mask), "one_to_one_images": encode(mask), "null_images": encode(nulls)}
    return {"n": len(mask), **counts, **masks}


def good(count: int, null: int = 0) -> dict[str, object]:
    """The same on 100 images of which the first ones are good, and the last ones in the null control."""
    images = np.arange(100)
    return good_images(images < count, images >= 100 - null)


def test_of_a_hundred_runs_the_far_apart_are_told_apart(record: Make) -> None:
    rng = np.random.default_rng(0)
    records = [
        record(attack=f"a{attack}", seed=seed, **good_images(rng.random(500) < 0.1 + attack / 50))
        for attack in range(20)
        for seed in range(5)
    ]
    (board,) = boards_of(records)
    ends = board.rows.set_index("attack")[["rank_low", "rank_high"]]

    assert (ends["rank_low"] <= ends["rank_high"]).all()
    assert ends.loc["a19", "rank_low"] == 1 and ends.loc["a0", "rank_high"] == 20
    assert ends.loc["a19", "rank_high"] < ends.loc["a9", "rank_low"] <= ends.loc["a9", "rank_high"] < 19


def test_no_attack_is_ranked_against_one_that_was_told_more(record: Make) -> None:
    told = {"best": f"{A}+{B}+{C}", "middle": f"{A}+{C}", "least": A, "other": f"{A}+{B}"}
    counts = {"best": 90, "middle": 50, "least": 10, "other": 70}
    records = [record(attack=name, knowledge=told[name], **good(counts[name])) for name in told]
    found = {board.knowledge: ranked(board) for board in boards_of(records)}

    assert list(found) == [A, f"{A}+{B}", f"{A}+{C}", f"{A}+{B}+{C}"]
    assert found[A] == {"least": "1"}
    assert found[f"{A}+{B}"] == {"other": "1", "least": "2"}
    assert found[f"{A}+{C}"] == {"middle": "1", "least": "2"}
    assert found[f"{A}+{B}+{C}"] == {"best": "1", "other": "2", "middle": "3", "least": "4"}
    own = leaderboard(table(records)).set_index("attack")["rank"]
    assert own.to_dict() == {"best": "1", "other": "1", "middle": "1", "least": "1"}


def test_knowledge_is_ignored_when_asked_for(record: Make) -> None:
    records = [record(attack="a", knowledge=A, **good(10)), record(attack="b", knowledge=B, **good(90))]
    (board,) = boards_of(records, across_knowledge=True)

    assert (board.knowledge, ranked(board)) == ("", {"b": "1", "a": "2"})


@pytest.mark.parametrize("name", ["victim", "protocol", "metric_suite", "n"])
def test_boards_do_not_mix(record: Make, name: str) -> None:
    mask = np.arange(101 if name == "n" else 100) < 90
    other = {"n": len(mask), "n_good": 90, "good_images": encode(mask)} | ({} if name == "n" else {name: "other"})
    found = [ranked(board) for board in boards_of([record(**good(10)), record(attack="other", **other)])]

    assert sorted(found, key=str) == [{"kkt": "1"}, {"other": "1"}]


def test_a_control_is_never_first(record: Make) -> None:
    (board,) = boards_of([record(**good(20)), record(attack="noise", control=True, **good(90))])

    assert ranked(board) == {"noise": "", "kkt": "1"}


@pytest.mark.parametrize(("found", "null", "rank"), [(30, 30, ""), (33, 30, ""), (60, 20, "1"), (10, 40, "")])
def test_what_does_not_beat_its_null_has_no_rank(record: Make, found: int, null: int, rank: str) -> None:
    (board,) = boards_of([record(**good(found, null))])
    (row,) = board.rows.to_dict("records")

    assert (row["rank"], row["gain"]) == (rank, found - null)
    assert (row["gain_low"] > 0) == bool(rank)


def test_a_gain_that_may_be_nothing_has_no_rank(record: Make) -> None:
    told = table([record(**good(60))])
    ends = {low: ranked(boards(leaderboard(told).assign(gain_low=low), gains(told))[0]) for low in (0.0, 0.1)}

    assert ends == {0.0: {"kkt": ""}, 0.1: {"kkt": "1"}}


def test_the_gain_ranks_and_not_the_count(record: Make) -> None:
    (board,) = boards_of([record(attack="many", **good(80, 60)), record(attack="gains", **good(70))])

    assert board.rows["attack"].tolist() == ["gains", "many"]
    assert ranked(board) == {"gains": "1", "many": "2"}


def test_counts_alone_rank_with_more_care(record: Make) -> None:
    """Without masks 60 and 42 of 100 cannot be told apart, for the images may be other ones; 90 and 10 can."""
    blind = {"good_images": "", "one_to_one_images": "", "null_images": ""}
    close = [record(attack=name, **(good(count) | blind)) for name, count in (("a", 60), ("b", 42))]
    apart = [record(attack=name, **(good(count) | blind)) for name, count in (("a", 95), ("b", 10))]

    assert [ranked(board) for board in boards_of(close)] == [{"a": "1-2", "b": "1-2"}]
    assert [ranked(board) for board in boards_of(apart)] == [{"a": "1", "b": "2"}]
    assert [ranked(board) for board in boards_of([record(attack="a", **good(60)), record(attack="b", **good(42))])] == [
        {"a": "1", "b": "2"}
    ]


def test_a_row_without_a_null_control_has_no_rank_and_takes_none(record: Make) -> None:
    unknown = record(attack="old", n=100, n_good=95, null_n_good=None)
    (board,) = boards_of([unknown, record(attack="a", **good(50)), record(attack="b", **good(10))])

    assert ranked(board) == {"a": "1", "b": "2", "old": ""}
    row = board.rows.set_index("attack").loc["old"]
    assert row[["rank_low", "rank_high", "gain", "gain_low"]].isna().all()


def test_a_failure_gains_nothing(record: Make) -> None:
    failed = {"status": Status.ERROR, "n": 100, "n_good": None}
    records = [
        record(attack="fails", null_n_good=30, **failed),
        record(attack="half", seed=0, **good(40)),
        record(attack="half", seed=1, null_n_good=30, **failed),
        record(attack="better", **good(70)),
    ]
    (board,) = boards_of(records)
    rows = board.rows.set_index("attack")

    assert rows["gain"].to_dict() == {"better": 70, "half": 20, "fails": 0}
    assert ranked(board) == {"better": "1", "half": "", "fails": ""}  # where one of two seeds fails nothing is sure
    low, high = rows.loc["fails", ["n_good_low", "n_good_high"]]
    assert low < 30 < high


# --- weights


def test_different_weights_under_one_definition_are_an_error_and_no_rank(record: Make) -> None:
    same = {"victim_key": "k"}
    records = [
        record(attack="a", victim_sha="1" * 64, **same, **good(50)),
        record(attack="b", victim_sha="2" * 64, **same, **good(10)),
    ]
    (board,) = boards_of(records)

    assert ranked(board) == {"a": "", "b": ""}
    assert "different weights under one definition (111111111111, 222222222222)" in board.conflict


def test_another_definition_is_another_board(record: Make) -> None:
    records = [
        record(attack="a", victim_key="k", victim_sha="1" * 64, **good(50)),
        record(attack="b", victim_key="l", victim_sha="2" * 64, **good(10)),
    ]
    assert [(board.victim_key, ranked(board), board.conflict) for board in boards_of(records)] == [
        ("k", {"a": "1"}, ""),
        ("l", {"b": "1"}, ""),
    ]


def test_retrainings_have_weights_of_their_own(record: Make) -> None:
    records = [
        record(attack=name, victim_key="k", victim_seed=seed, victim_sha=str(seed) * 64, **good(count + seed))
        for name, count in (("a", 60), ("b", 20))
        for seed in range(3)
    ]
    (board,) = boards_of(records)
    rows = board.rows.set_index("attack")

    assert (board.conflict, ranked(board)) == ("", {"a": "1", "b": "2"})
    assert rows.loc["a", ["seeds", "trainings", "gain"]].tolist() == [3, 3, 61]
    assert rows.loc["a", "weights"] == "0=000000000000;1=111111111111;2=222222222222"


def test_a_row_without_a_key_has_that_of_its_own_name(record: Make) -> None:
    """A defended victim may have the weights of the victim itself."""
    rows = [("plain", "k"), ("plain+topk", "l"), ("plain", ""), ("plain+topk", ""), ("another", "")]
    told = [record(victim=name, victim_key=key, victim_sha="1" * 64) for name, key in rows]
    assert defined(table(told))["victim_key"].tolist() == ["k", "l", "k", "l", ""]


def test_a_failure_that_saw_no_weights_is_of_the_only_definition(record: Make) -> None:
    failed = {"status": Status.ERROR, "n": 100, "n_good": None, "reason": "no data"}
    found = boards_of([record(victim_key="k", victim_sha="1", **good(50)), record(attack="late", **failed)])

    assert [ranked(board) for board in found] == [{"kkt": "1", "late": ""}]
    of_two = [record(victim_key="k", victim_sha="1"), record(victim_key="l", victim_sha="2"), record(attack="late")]
    assert defined(table(of_two))["victim_key"].tolist() == ["k", "l", ""]


def test_a_seed_that_fails_widens_the_interval(record: Make) -> None:
    fine = [record(seed=seed, null_n_good=10, **good(80)) for seed in (0, 1)]
    failed = record(seed=2, null_n_good=10, status=Status.ERROR, n=100, n_good=None)
    widths = []
    for last in (record(seed=2, null_n_good=10, **good(80)), failed):
        (sample,) = samples(table([*fine, last])).values()
        low, high = count_interval(sample)
        widths.append(high - low)

    assert sample.total == pytest.approx((80 + 80 + 10) / 3)
    assert widths[1] > 3 * widths[0]


def test_a_run_whose_later_scoring_failed_counts_as_it_was_scored(record: Make) -> None:
    failed = {"scores": ScoreState.FAILED, "scores_reason": "the disk is full"}
    scored, never = record(**failed, **good(80)), record(seed=1, n=100, null_n_good=10, **(failed | {"n_good": None}))
    assert unsuccessful(table([scored, never])).tolist() == [False, True]
    (sample,) = samples(table([scored, never])).values()
    assert sample.total == pytest.approx((80 + 10) / 2)


def test_a_count_one_to_one_gains_nothing_over_a_null_that_is_not(record: Make) -> None:
    """In older rows neither is one to one, and both are by the vote."""
    lacking = good(80) | {"null_n_good": 10, "null_n_good_unique": None, "null_images": ""}
    older = lacking | {"n_good_unique": None, "one_to_one_images": ""}
    told = table([record(**lacking), record(attack="older", **older), record(attack="other", **good(50))])
    assert {cell[0]: sample.total for cell, sample in gains(told).items()} == {"older": 70, "other": 50}


def test_runs_on_different_numbers_of_images_make_no_cell(record: Make) -> None:
    fewer = good_images(np.arange(50) < 10)
    told = table([record(**good(20)), record(seed=1, **fewer), record(attack="other", **fewer)])
    for found in (samples(told), gains(told)):
        assert [cell[0] for cell in found] == ["other"]


def test_what_was_skipped_competes_nowhere(record: Make) -> None:
    (board,) = boards_of([record(**good(10)), record(attack="picky", status=Status.SKIPPED)])

    assert ranked(board) == {"kkt": "1"}
