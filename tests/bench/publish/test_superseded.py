"""Rows that another replaces, which runs.csv loses; and of a version that a higher one supersedes, which it keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.publish.compare import compare
from bench.publish.leaderboard import leaderboard, write_tables
from bench.publish.ranking import of_each_seed, samples
from bench.publish.report.collect import collect
from bench.publish.runs_table import VERSIONS, read_runs
from bench.store.records import OVERLAPPED, SCHEMA_VERSION, RunRecord, Status

Make = Callable[..., RunRecord]
every_version = pytest.mark.parametrize("version", VERSIONS.values())


def counts(path: Path) -> list[float]:
    return sorted(leaderboard(read_runs(path / "runs.csv"))["n_good"])


@every_version
def test_a_superseded_row_stays_in_the_table_and_leaves_the_board(record: Make, tmp_path: Path, version: str) -> None:
    old, new = record(n_good=3, good_images="e"), record(n_good=2, good_images="c", **{version: 2})
    for _ in range(2):
        write_tables(tmp_path, [old, new])
        runs = read_runs(tmp_path / "runs.csv")
        assert runs[version].tolist() == [1, 2]
        assert counts(tmp_path) == [2]
    assert [sample.trainings[0].count for sample in samples(runs).values()] == [1]
    assert [row["n_good"] for board in collect(tmp_path).boards for row in board.rows.to_dict("records")] == [2]


@pytest.mark.parametrize(
    ("other", "left"),
    [
        ({"attack": "random"}, [2, 3]),  # another attack and its version have nothing to do with it
        ({"victim": "faces-mlp-8"}, [2]),  # a version is the attack's on every victim
        ({"status": Status.SKIPPED, "n_good": None}, [3]),
        ({"status": Status.ERROR, "n_good": None}, [1]),  # which counts as its null control
    ],
)
def test_which_rows_supersede_which(record: Make, tmp_path: Path, other: dict[str, Any], left: list[float]) -> None:
    write_tables(tmp_path, [record(n_good=3), record(**({"n_good": 2} | other), attack_version=2)])

    assert counts(tmp_path) == left
    assert len(read_runs(tmp_path / "runs.csv")) == 2


SHARED = {"flags": f"budget;{OVERLAPPED}: the machine was shared"}


@pytest.mark.parametrize(
    ("first", "later", "left"),
    [
        ({}, {}, "later"),
        ({}, SHARED, "first"),
        (SHARED, {}, "later"),
        (SHARED, SHARED, "later"),
        (SHARED, {"status": Status.ERROR}, "first"),
        ({"status": Status.ERROR}, SHARED, "later"),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_of_the_runs_of_a_seed_one_counts(
    record: Make, first: dict[str, Any], later: dict[str, Any], left: str, turned: bool
) -> None:
    """One that found something; of those one that had its machine for itself; of those the latest."""
    rows = [record(run_id="first", sequence=1, **first), record(run_id="later", sequence=2, **later)]
    table = pd.DataFrame([row.model_dump(mode="json") for row in (rows[::-1] if turned else rows)])
    assert of_each_seed(table)["run_id"].tolist() == [left]


@every_version
def test_compare_names_the_version_as_the_cause(record: Make, tmp_path: Path, version: str) -> None:
    old, new = record(n_good=3), record(n_good=2, **{version: 2})
    write_tables(tmp_path / "old", [old])
    write_tables(tmp_path / "new", [old, new])
    found = compare(tmp_path / "old" / "runs.csv", tmp_path / "new" / "runs.csv")

    (row,) = found.changed[found.changed["score"] == "n_good"].to_dict("records")
    assert (row["old"], row["new"], row["cause"]) == (3, 2, f"{version.replace('_', ' ')} 1 -> 2")


def test_a_row_of_an_older_schema_is_of_version_1(record: Make, tmp_path: Path) -> None:
    write_tables(tmp_path, [record()])
    path = tmp_path / "runs.csv"
    lines = [line.split(",") for line in path.read_text().splitlines()]
    places = [place for place, name in enumerate(lines[0]) if name not in VERSIONS.values()]
    texts = [",".join(line[place] for place in places) for line in lines]
    path.write_text("\n".join(texts).replace(f"\n{SCHEMA_VERSION},", "\n4,") + "\n")

    assert read_runs(path)[list(VERSIONS.values())].to_numpy().tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("status", [Status.OOM, Status.ERROR, Status.SKIPPED])
def test_a_run_that_found_nothing_replaces_none_that_did(record: Make, tmp_path: Path, status: Status) -> None:
    write_tables(tmp_path, [record(sequence=4)])
    failed = record(sequence=5, status=status, n_good=None)
    for _ in range(2):
        write_tables(tmp_path, [failed])
        assert read_runs(tmp_path / "runs.csv")["status"].tolist() == [Status.OK]
    write_tables(tmp_path, [record(sequence=6, n_good=1)])
    assert read_runs(tmp_path / "runs.csv")["n_good"].tolist() == [1]


def test_of_runs_that_found_nothing_the_last_is_told(record: Make, tmp_path: Path) -> None:
    for sequence, status in enumerate((Status.ERROR, Status.OOM)):
        write_tables(tmp_path, [record(sequence=sequence, status=status, n_good=None)])
    assert read_runs(tmp_path / "runs.csv")["status"].tolist() == [Status.OOM]


@pytest.mark.parametrize("status", Status)
def test_a_run_is_one_row_by_whatever_name_its_parameters_were_asked_for(
    record: Make, tmp_path: Path, status: Status
) -> None:
    write_tables(tmp_path, [record(sequence=1, status=status, variant="forty"), record(sequence=2)])
    assert read_runs(tmp_path / "runs.csv")["variant"].tolist() == [""]


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({}, 1),  # the attack was made again here, and not scored under the other protocol
        ({"status": Status.OOM, "n_good": None}, 2),  # which found nothing
        ({"sequence": 1}, 2),  # it was scored again
        ({"cpu": "Abacus"}, 3),  # a run of another machine replaces none
        ({"run_id": "another", "seed": 1}, 3),
    ],
)
def test_rows_of_other_protocols_go_when_their_run_is_made_again(
    record: Make, tmp_path: Path, changes: dict[str, Any], left: int
) -> None:
    write_tables(tmp_path, [record(sequence=1), record(sequence=1, protocol="assigned")])
    for _ in range(2):
        write_tables(tmp_path, [record(**({"sequence": 2} | changes))])
        assert len(read_runs(tmp_path / "runs.csv")) == left
