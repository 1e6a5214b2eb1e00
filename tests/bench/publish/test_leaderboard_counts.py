"""Every count of good images on the board has its own null control: beside it, and in its place where a run failed."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.publish.leaderboard import write_tables
from bench.store.records import COUNTS, OVERLAPPED, RunRecord, Status

Make = Callable[..., RunRecord]
FOUND = dict(zip(COUNTS, (90, 80, 70, 60, 50), strict=True))
NULL = dict(zip((f"null_{name}" for name in COUNTS), (9, 8, 7, 6, 5), strict=True))


@pytest.mark.parametrize("name", COUNTS)
def test_a_failure_counts_as_its_own_null_in_every_count(record: Make, tmp_path: Path, name: str) -> None:
    failed = record(seed=1, n=100, status=Status.TIMEOUT, **dict.fromkeys(COUNTS), **NULL)
    (row,) = write_tables(tmp_path, [record(n=100, **FOUND, **NULL), failed]).to_dict("records")
    assert row[name] == (FOUND[name] + NULL[f"null_{name}"]) / 2


@pytest.mark.parametrize("name", COUNTS)
def test_a_failure_without_a_null_counts_as_nothing(record: Make, tmp_path: Path, name: str) -> None:
    nothing = dict.fromkeys((*COUNTS, *NULL))
    failed = record(seed=1, n=100, status=Status.OOM, **nothing)
    (row,) = write_tables(tmp_path, [record(n=100, **FOUND, **NULL), failed]).to_dict("records")
    assert row[name] == FOUND[name] / 2


@pytest.mark.parametrize("null", [None, 2])
def test_a_failure_has_no_count_that_its_protocol_does_not_have(record: Make, tmp_path: Path, null: int | None) -> None:
    alone = dict.fromkeys((*COUNTS, *NULL)) | {"null_n_good": null}
    failed = record(seed=1, status=Status.OOM, **alone)
    found = record(**(alone | {"n_good": 4}))
    for rows in ([found, failed], [failed]):
        folder = tmp_path / str(len(rows))
        (row,) = write_tables(folder, rows).to_dict("records")
        assert row["n_good"] == (4 * (len(rows) - 1) + (null or 0)) / len(rows)
        assert all(math.isnan(row[name]) for name in COUNTS[1:])


def test_a_seed_on_two_machines_is_one_seed(record: Make, tmp_path: Path) -> None:
    known = {"victim_key": "k", "victim_sha": "a"}
    elsewhere = record(**known, cpu="Abacus", flags=OVERLAPPED)
    (row,) = write_tables(tmp_path, [record(**known), elsewhere]).to_dict("records")
    assert (row["seeds"], row["failed"], row["overlapped"]) == (1, 0, 0)
    more = [record(**known, seed=1, cpu=cpu, status=Status.OOM, n_good=None) for cpu in ("Abacus", "Slide rule")]
    retrained = record(victim_key="k", victim_sha="b", victim_seed=1)
    (row,) = write_tables(tmp_path, [*more, retrained]).to_dict("records")
    assert (row["seeds"], row["trainings"], row["failed"]) == (3, 2, 1)


def test_a_seed_on_two_machines_enters_means_and_gain_once(record: Make, tmp_path: Path) -> None:
    known = {"victim_key": "k", "victim_sha": "a", "n": 100, "null_n_good": 0}
    seeds = [record(**known, seed=seed, n_good=count, cpu="Abacus") for seed, count in enumerate((40, 10))]
    other = [record(**known, n_good=40, cpu=cpu, sequence=2) for cpu in ("Slide rule", "Tally")]
    failed = record(**known, seed=1, n_good=None, cpu="Tally", sequence=3, status=Status.OOM)
    told = ["n_good", "gain", "gain_low", "gain_high", "rank", "seeds", "failed"]
    (once,) = write_tables(tmp_path / "once", seeds)[told].to_dict("records")
    (often,) = write_tables(tmp_path / "often", [*seeds, *other, failed])[told].to_dict("records")
    assert often == once
    assert (once["n_good"], once["seeds"], once["failed"]) == (25, 2, 0)


def test_seconds_of_a_shared_machine_stay_where_the_other_run_has_none(record: Make, tmp_path: Path) -> None:
    shared = record(wall_s=30.0, flags=OVERLAPPED)
    failed = record(seed=1, status=Status.TIMEOUT, n_good=None, wall_s=None)
    (row,) = write_tables(tmp_path, [shared, failed]).to_dict("records")
    assert (row["wall_s"], row["overlapped"], row["failed"]) == (30, 1, 1)
    (row,) = write_tables(tmp_path, [record(seed=2, wall_s=20.0)]).to_dict("records")
    assert row["wall_s"] == 20, "seconds of a run that had the machine for itself are the cell's"


def test_every_training_counts_alike_however_many_seeds_attacked_it(record: Make, tmp_path: Path) -> None:
    often = [record(seed=seed, n=100, n_good=90, mse_mean=0.1) for seed in range(3)]
    once = record(victim_seed=1, n=100, n_good=10, mse_mean=0.5)
    (row,) = write_tables(tmp_path, [*often, once]).to_dict("records")
    assert (row["n_good"], row["seeds"], row["trainings"]) == (50, 4, 2)
    assert row["mse_mean"] == pytest.approx(0.3)


def test_a_cell_tells_what_any_of_its_runs_tells(record: Make, tmp_path: Path) -> None:
    found = [
        record(seed=seed, n=4, torch=torch, good_images=good) for seed, torch, good in ((0, "3", "e"), (1, "", "7"))
    ]
    failed = record(seed=2, n=4, torch="2", status=Status.OOM, n_good=None, null_n_good=2)
    board = write_tables(tmp_path, [*found, failed, record(seed=3, attack="other", torch="1")]).set_index("attack")
    told = board.loc["kkt", ["seed", "torch", "good_images"]].tolist()
    assert told == ["0;1;2", "2;3", "0:e;0:7;0:~2"]
