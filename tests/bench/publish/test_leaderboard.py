"""runs.csv and leaderboard.csv."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench.publish.claims.tables import Tables, made_of_runs
from bench.publish.leaderboard import BOARD_COLUMNS, leaderboard, write_tables
from bench.publish.runs_table import TEXT, read_runs
from bench.store.cells import read_cells
from bench.store.good_images import encode
from bench.store.records import COLUMNS, NULLS, SCHEMA_VERSION, SCORES, RunRecord, Status
from victims.errors import UserError

Make = Callable[..., RunRecord]
SINCE_SCHEMA_2 = (
    *("attack_sha", "control", "n_good_assigned", "null_n_good_assigned", "null_control", *NULLS),
    *("gain_over_null", "false_positive_rate", "ssim_at_1pct", "n_good_at_1pct", "good_images"),
    *("psnr_mean", "pearson_mean", "identified", "kl_status", "confidence_ap", "base_rate"),
)
LATER = "2025-06-01T00:00:00+00:00"


def board_of(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "leaderboard.csv")


def texts(folder: Path) -> list[str]:
    return [(folder / name).read_text() for name in ("runs.csv", "leaderboard.csv")]


def mixed(record: Make) -> list[RunRecord]:
    """Numbers with many digits, columns that are empty in all rows or in some, and a failure."""
    return [
        record(seed=0, ssim_mean=1 / 3, n_good=None, gpu="H200"),
        record(seed=1, ssim_mean=1e-9, attack_loss=2 / 3),
        record(seed=2, status=Status.ERROR, reason='it said "no", twice', ssim_mean=None, n_good=None, wall_s=None),
        record(attack="random", variant="paper", params_json='{"a": [1, 2]}', flags="a;b"),
        record(attack="picky", status=Status.SKIPPED, reason="only likes cats"),
    ]


def test_the_columns_are_those_of_the_record(record: Make, tmp_path: Path) -> None:
    board = write_tables(tmp_path, [record()])

    assert tuple(read_runs(tmp_path / "runs.csv").columns) == COLUMNS
    assert tuple(board.columns) == tuple(board_of(tmp_path).columns) == BOARD_COLUMNS
    assert len(set(BOARD_COLUMNS)) == len(BOARD_COLUMNS)
    assert set(SCORES) < set(BOARD_COLUMNS)


def test_empty_tables_have_the_same_columns(tmp_path: Path) -> None:
    for _ in range(2):
        write_tables(tmp_path, [])
        assert tuple(read_runs(tmp_path / "runs.csv").columns) == COLUMNS
        assert tuple(board_of(tmp_path).columns) == BOARD_COLUMNS


def test_writing_again_changes_no_byte(record: Make, tmp_path: Path) -> None:
    records = mixed(record)
    write_tables(tmp_path, records)
    first = texts(tmp_path)
    for again in (records, [], records[:1], records[::-1]):
        write_tables(tmp_path, again)
        assert texts(tmp_path) == first
    assert not list(tmp_path.glob(".*"))


def test_rows_added_one_by_one_are_the_rows_added_at_once(record: Make, tmp_path: Path) -> None:
    records = mixed(record)
    write_tables(tmp_path / "once", records)
    for count in range(len(records) + 1):
        write_tables(tmp_path / "stepwise", records[:count])
    for one in records:
        write_tables(tmp_path / "published", [one])

    assert texts(tmp_path / "stepwise") == texts(tmp_path / "once")
    assert texts(tmp_path / "published")[0] == texts(tmp_path / "once")[0]


def test_an_empty_text_stays_empty(record: Make, tmp_path: Path) -> None:
    for _ in range(3):
        write_tables(tmp_path, mixed(record))
    runs = pd.read_csv(tmp_path / "runs.csv", dtype=str, keep_default_na=False)

    assert not (runs == "nan").any().any()
    assert not (runs == "None").any().any()
    assert (runs["variant"] == "").sum() == 4
    again = read_runs(tmp_path / "runs.csv")
    assert all(isinstance(value, str) for name in TEXT for value in again[name])


@pytest.mark.parametrize("name", ["nan", "null", "NA", "None", "007", "1e5", "True"])
def test_a_name_is_a_name(record: Make, tmp_path: Path, name: str) -> None:
    for _ in range(2):
        board = write_tables(tmp_path, [record(attack=name, params_hash=name, reason=name)])

    assert board["attack"].tolist() == board["params_hash"].tolist() == [name]
    assert read_runs(tmp_path / "runs.csv")[["attack", "params_hash", "reason"]].to_numpy().tolist() == [[name] * 3]


def earlier(path: Path, *rows: RunRecord) -> Path:
    """Write a runs.csv as the first schema had it."""
    write_tables(path.parent, list(rows))
    table = pd.read_csv(path, dtype=str, keep_default_na=False).drop(columns=list(SINCE_SCHEMA_2))
    table.assign(schema_version="1").to_csv(path, index=False)
    return path


def test_an_earlier_schema_is_read(record: Make, tmp_path: Path) -> None:
    runs = read_runs(earlier(tmp_path / "runs.csv", record(n_good=2)))

    assert tuple(runs.columns) == COLUMNS
    (row,) = runs.to_dict("records")
    assert (row["schema_version"], row["n_good"], row["attack_sha"], row["control"]) == (1, 2, "", False)
    assert math.isnan(row["n_good_assigned"])


def test_rows_of_an_earlier_schema_stand_beside_new_ones(record: Make, tmp_path: Path) -> None:
    earlier(tmp_path / "runs.csv", record(metric_suite="1"))
    for _ in range(2):
        board = write_tables(tmp_path, [record(metric_suite="2", control=True, good_images="e")])
        assert read_runs(tmp_path / "runs.csv")[["schema_version", "control"]].to_numpy().tolist() == [
            [1, False],
            [SCHEMA_VERSION, True],
        ]
        assert board["metric_suite"].tolist() == ["1", "2"]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("schema_version", str(SCHEMA_VERSION + 1), "; update the program"),
        ("schema_version", "", "has schema"),
        ("good_images", "e8", "good_images of the run kkt-faces-mlp-4-s0-0123456789: 'e8' is not 1"),
        ("n_good", "splendid", "holds text in a column of numbers"),
        ("run_id", None, "it lacks the column run_id"),
        ("null_untrained", None, "it lacks the column null_untrained"),
    ],
)
def test_a_table_that_cannot_be_trusted_is_refused(
    record: Make, tmp_path: Path, column: str, value: str | None, words: str
) -> None:
    write_tables(tmp_path, [record()])
    path = tmp_path / "runs.csv"
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    (table.drop(columns=column) if value is None else table.assign(**{column: value})).to_csv(path, index=False)

    with pytest.raises(UserError, match=re.escape(words)):
        read_runs(path)


def test_published_rows_stay(record: Make, tmp_path: Path) -> None:
    write_tables(tmp_path, [record(attack="published")])
    write_tables(tmp_path, [record(attack="mine")])
    write_tables(tmp_path, [])

    assert read_runs(tmp_path / "runs.csv")["attack"].tolist() == ["mine", "published"]


def test_the_newest_row_wins(record: Make, tmp_path: Path) -> None:
    write_tables(tmp_path, [record(n_good=1), record(n_good=2, started_utc=LATER)])
    assert read_runs(tmp_path / "runs.csv")["n_good"].tolist() == [2]
    write_tables(tmp_path, [record(n_good=3)])
    assert read_runs(tmp_path / "runs.csv")["n_good"].tolist() == [2]
    write_tables(tmp_path, [record(n_good=4, started_utc=LATER)])
    assert read_runs(tmp_path / "runs.csv")["n_good"].tolist() == [4]


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"attack": "other"},
        {"run_id": "another", "variant": "paper"},
        {"params_hash": "f"},
        {"victim": "other"},
        {"protocol": "other"},
        {"metric_suite": "2"},
        {"cpu": "Abacus"},
        {"gpu": "H200"},
    ],
    ids=lambda changes: list(changes)[-1],
)
def test_rows_of_another_cell_seed_or_machine_stand_side_by_side(
    record: Make, tmp_path: Path, changes: dict[str, object]
) -> None:
    write_tables(tmp_path, [record()])
    write_tables(tmp_path, [record(**changes)])

    assert len(read_runs(tmp_path / "runs.csv")) == 2


def test_seeds_are_averaged(record: Make, tmp_path: Path) -> None:
    good = [2, 3, 7]
    board = write_tables(tmp_path, [record(seed=seed, n_good=n, wall_s=seed) for seed, n in enumerate(good)])

    (row,) = board.to_dict("records")
    assert (row["seeds"], row["failed"], row["n_good"], row["wall_s"]) == (3, 0, 4, 1)


def test_the_count_has_its_interval_and_its_rank(record: Make, tmp_path: Path) -> None:
    low = record(attack="low", n=100, n_good=10, good_images=encode([True] * 10 + [False] * 90))
    high = record(attack="high", n=100, n_good=90, good_images=encode([True] * 90 + [False] * 10))
    alike = low.model_copy(update={"attack": "alike"})
    unknown = record(attack="unknown", n=100, n_good=50, null_n_good=None)
    board = write_tables(tmp_path, [low, high, alike, unknown]).set_index("attack")

    assert board["rank"].to_dict() == {"high": "1", "unknown": "", "alike": "2-3", "low": "2-3"}
    spans = board[["n_good_low", "n_good_high"]].dropna()
    assert spans.loc["low"].tolist() == pytest.approx([5.4, 17.7], abs=0.5)  # Wilson's, 5.5 to 17.4
    assert sorted(spans.index) == ["alike", "high", "low"]


def test_a_failure_counts_as_the_null_control(record: Make, tmp_path: Path) -> None:
    records = [
        record(seed=0, n_good=9, null_n_good=4, ssim_mean=0.5),
        record(seed=1, status=Status.DIVERGED, n_good=None, null_n_good=3, ssim_mean=None),
        record(seed=2, status=Status.ERROR, n_good=None, null_n_good=None, ssim_mean=None),
    ]
    (row,) = write_tables(tmp_path, records).to_dict("records")

    assert (row["seeds"], row["failed"], row["n_good"], row["ssim_mean"]) == (3, 2, 4, 0.5)


def test_a_failure_gains_nothing_over_the_null_control(record: Make, tmp_path: Path) -> None:
    records = [
        record(seed=0, n_good=9, null_n_good=4, gain_over_null=5),
        record(seed=1, status=Status.ERROR, n_good=None, null_n_good=4),
    ]
    (row,) = write_tables(tmp_path, records).to_dict("records")

    assert row["gain_over_null"] == row["n_good"] - row["null_n_good"] == 2.5


def test_a_skipped_run_is_in_runs_alone(record: Make, tmp_path: Path) -> None:
    write_tables(tmp_path, [record(), record(attack="picky", status=Status.SKIPPED)])

    assert len(read_runs(tmp_path / "runs.csv")) == 2
    assert board_of(tmp_path)["attack"].tolist() == ["kkt"]


def test_the_board_is_ordered_by_victim_then_by_score(record: Make, tmp_path: Path) -> None:
    rows = [("b", "kkt", 1), ("a", "low", 1), ("a", "tied", 5), ("a", "best", 9), ("a", "also", 5)]
    board = write_tables(tmp_path, [record(victim=victim, attack=name, n_good=n) for victim, name, n in rows])

    assert board["attack"].tolist() == ["best", "also", "tied", "low", "kkt"]


def test_the_board_of_the_file_is_the_board_of_the_records(record: Make, tmp_path: Path) -> None:
    written = write_tables(tmp_path, mixed(record)).reset_index(drop=True)
    read = leaderboard(read_runs(tmp_path / "runs.csv")).reset_index(drop=True)

    pd.testing.assert_frame_equal(written, read, check_dtype=False, check_exact=True)


def test_a_mean_is_that_of_the_numbers_in_the_file(record: Make, tmp_path: Path) -> None:
    measured = (17.37354, 17.37354, 17.37364)  # 17.3736 on average, and 17.3735 once each has six digits
    write_tables(tmp_path, [record(seed=seed, psnr_mean=value) for seed, value in enumerate(measured)])

    assert list(made_of_runs(Tables(tmp_path))) == []
    assert read_cells(tmp_path / "leaderboard.csv")["psnr_mean"].tolist() == ["17.3735"]


def test_a_mean_between_two_numbers_of_six_digits_is_one_of_them_each_time(record: Make, tmp_path: Path) -> None:
    """The last digits of pandas' means of four numbers differ with the rows beside them."""
    drawn = np.random.default_rng(0).uniform(700, 800, (40, 4)).round(3).tolist()
    records = [
        record(attack=f"attack-{cell}", victim_seed=seed, peak_mem_mb=value)
        for cell, values in enumerate(drawn)
        for seed, value in enumerate(values)
    ]
    means = write_tables(tmp_path, records).set_index("attack")["peak_mem_mb"]
    assert [means[f"attack-{cell}"] for cell in range(40)] == [round(math.fsum(values) / 4, 5) for values in drawn]


@pytest.mark.parametrize(
    "told",
    [{"knowledge": "architecture+oracle: training images+weights"}, {"tuned_by": "oracle"}],
    ids=["starts", "tunes"],
)
def test_what_an_oracle_helped_is_in_the_runs_and_on_no_leaderboard(
    record: Make, tmp_path: Path, told: dict[str, object]
) -> None:
    board = write_tables(tmp_path, [record(), record(attack="bilevel", **told)])
    assert list(board["attack"]) == ["kkt"]
    assert sorted(read_runs(tmp_path / "runs.csv")["attack"]) == ["bilevel", "kkt"]
