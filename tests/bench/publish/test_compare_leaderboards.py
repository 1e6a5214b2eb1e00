"""Leaderboards, tables of runs and results folders of any schema are compared with each other."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bench.publish.board_file import read_leaderboard
from bench.publish.compare import compare
from bench.publish.leaderboard import write_tables
from bench.store.good_images import encode
from bench.store.records import RunRecord, Status
from victims.errors import UserError

Make = Callable[..., RunRecord]
GOLDEN = Path(__file__).parents[1] / "store" / "golden" / "leaderboards"
old_leaderboards = pytest.mark.parametrize("version", [1, 2, 5])


def good(count: int, first: int = 0) -> dict[str, Any]:
    """The columns of a run on 100 images, `count` of which are good, one to one, and none in its null control."""
    images = np.arange(100)
    mask = encode((first <= images) & (images < first + count))
    counts = {"n_good": count, "n_good_unique": count, "null_n_good_unique": 0}
    return {"n": 100, **counts, "good_images": mask, "one_to_one_images": mask, "null_images": encode(images < 0)}


@pytest.fixture
def two(record: Make, tmp_path: Path) -> tuple[Path, Path]:
    """Two results folders that differ in all that a leaderboard must carry."""
    failed = {"status": Status.ERROR, "n": 100, "n_good": None, "null_n_good": 7}
    old = [
        *(record(seed=seed, victim_sha="a" * 64, **good(30 + 10 * seed, first=seed)) for seed in range(3)),
        *(record(attack="retrained", victim_seed=seed, **good(20 + seed)) for seed in range(3)),
        record(attack="half", seed=0, **good(50)),
        record(attack="half", seed=1, **failed),
        record(attack="unknown", n=100, n_good=40),
        record(attack="gone", **good(5)),
    ]
    changed = {"victim_sha": "b" * 64, "torch": "3", "gpu": "H200", "attack_version": 2, "attack_sha": "x"}
    new = [
        *(record(seed=seed, **changed, **good(50 + 10 * seed, first=20)) for seed in range(2)),
        *(record(attack="retrained", victim_seed=seed, **good(30 + seed)) for seed in range(3)),
        *(record(attack="half", seed=seed, **good(50)) for seed in range(2)),
        record(attack="unknown", n=100, n_good=30, params_json='{"lr": 2}', params_hash="b"),
        record(attack="fresh", **good(25)),
    ]
    for name, records in (("old", old), ("new", new)):
        write_tables(tmp_path / name, records)
    return tmp_path / "old", tmp_path / "new"


@pytest.mark.parametrize("kinds", [("leaderboard.csv",) * 2, ("runs.csv", "leaderboard.csv"), ("", "runs.csv")])
def test_a_leaderboard_says_what_its_runs_say(two: tuple[Path, Path], kinds: tuple[str, str]) -> None:
    by_runs = compare(two[0] / "runs.csv", two[1] / "runs.csv")
    found = compare(*(folder / kind for folder, kind in zip(two, kinds, strict=True)))

    told, columns = by_runs.changed, ["cell", "score", "old", "new", "cause"]
    pd.testing.assert_frame_equal(found.changed[columns], told[columns], rtol=1e-5)
    # that of a leaderboard has no images of the counts one to one
    counts, ends = (table[table["score"] == "n_good"] for table in (found.changed, told))
    pd.testing.assert_frame_equal(counts, ends, rtol=1e-5)
    assert found.regressions == by_runs.regressions
    assert [*map(str, found.only_old)] == [*map(str, by_runs.only_old)] == ["gone on faces-mlp-4 (buzaglo2023)"]
    assert by_runs.only_new == [
        "fresh on faces-mlp-4 (buzaglo2023): gain +25, level with kkt +40, unknown +39, half +25, retrained +21; "
        "ahead of gone +5"
    ]
    raw = [
        "fresh on faces-mlp-4 (buzaglo2023): gain +25, behind kkt +40, unknown +39; level with half +25; ahead of "
        "retrained +21, gone +5"
    ]
    assert found.only_new == (raw if "leaderboard.csv" in kinds else by_runs.only_new)


def test_every_cause_is_in_a_leaderboard(two: tuple[Path, Path]) -> None:
    found = compare(*(folder / "leaderboard.csv" for folder in two)).changed
    causes = {str(cell).split(" ")[0]: str(cause) for cell, cause in zip(found["cell"], found["cause"], strict=True)}

    assert causes["unknown"] == "parameters lr None -> 2"
    for part in ("victim weights", "attack version 1 -> 2", "torch 2 -> 3", "seeds 0,1,2 -> 0,1", "H200"):
        assert part in causes["kkt"]


def test_the_interval_is_in_a_leaderboard(two: tuple[Path, Path]) -> None:
    found = compare(*(folder / "leaderboard.csv" for folder in two)).changed
    counts = found[found["score"] == "n_good"]
    counts = counts.set_index(counts["cell"].str.split(" ").str[0])

    low, high = counts.loc["retrained", ["low", "high"]]
    assert 5 < low < 10 < high < 15
    assert counts.loc["unknown", ["low", "high"]].isna().all()


@old_leaderboards
def test_an_old_leaderboard_is_the_same_as_itself(version: int) -> None:
    path = GOLDEN / f"schema{version}.csv"
    found = compare(path, path)

    assert (len(found.changed), found.same) == (0, len(read_leaderboard(path)))
    assert (found.regressions, found.only_old, found.only_new) == ([], [], [])


@old_leaderboards
@pytest.mark.parametrize("other", ["runs.csv", "leaderboard.csv", ""])
def test_an_old_leaderboard_is_compared_with_any_table(record: Make, tmp_path: Path, version: int, other: str) -> None:
    path = GOLDEN / f"schema{version}.csv"
    row = read_leaderboard(path).set_index(["attack", "victim"]).loc[("first-layer", "faces-mlp-20")]
    same = {name: row[name] for name in ("params_hash", "params_json", "metric_suite", "protocol", "dataset")}
    mine = record(attack="first-layer", victim="faces-mlp-20", n=20, n_good=row["n_good"] - 1, seed=0, **same)
    write_tables(tmp_path, [mine, record(attack="mine", victim="faces-mlp-20", n=20, n_good=3)])
    found = compare(path, tmp_path / other)

    (changed,) = found.changed[found.changed["score"] == "n_good"].to_dict("records")
    assert (changed["old"], changed["new"]) == (row["n_good"], row["n_good"] - 1)
    assert "one table does not tell" in changed["cause"]
    assert len(found.only_old) == len(read_leaderboard(path)) - 1
    assert "kkt" in found.only_new[0] and "random" in found.only_new[0]


def test_intervals_of_both_tables_stand_in_for_masks(record: Make, tmp_path: Path) -> None:
    """A leaderboard of schema 5 has ends and no masks: a change is sure where the two intervals are apart."""
    path = GOLDEN / "schema5.csv"
    row = read_leaderboard(path).set_index(["attack", "victim"]).loc[("kkt", "faces-mlp-100")]
    same = {name: row[name] for name in ("params_hash", "params_json", "metric_suite", "protocol", "dataset")}
    write_tables(tmp_path, [record(attack="kkt", victim="faces-mlp-100", **good(5), **same)])
    found = compare(path, tmp_path)
    (changed,) = found.changed[found.changed["score"] == "n_good"].to_dict("records")

    own = read_leaderboard(tmp_path).iloc[0]
    assert changed["low"] == pytest.approx(own["n_good_low"] - row["n_good_high"])
    assert changed["high"] == pytest.approx(own["n_good_high"] - row["n_good_low"])
    assert changed["high"] < 0 and found.regressions == [
        f"kkt on faces-mlp-100 (buzaglo2023): n_good fell from {row['n_good']:.6g} to 5"
    ]


def test_the_folder_without_runs_speaks_by_its_leaderboard(two: tuple[Path, Path]) -> None:
    (two[0] / "runs.csv").unlink()
    assert compare(two[0], two[0]).same == 5


@pytest.mark.parametrize("form", ["markdown", "csv", "text"])
def test_every_format_lists_all(bench: Callable[..., Any], two: tuple[Path, Path], form: str) -> None:
    ended = bench("compare", *two, "--format", form)

    assert (ended.status, ended.err) == (0, "")
    for word in ("gone on faces", "fresh on faces", "good", "torch 2 -", "victim weights", "only in the old table"):
        assert word in ended.out
    if form == "csv":
        table = pd.read_csv(io.StringIO(ended.out))
        assert set(table["what"]) == {"changed", "got worse", "only in the new table", "only in the old table"}
        assert len(table[table["what"] == "changed"]) == len(compare(*two).changed)
    if form == "markdown":
        assert len({line.count("|") for line in ended.out.splitlines() if line.startswith("|")}) == 1


@pytest.mark.parametrize("file", ["runs.csv", "leaderboard.csv"])
def test_a_cell_of_failures_alone_stands_beside_no_other(record: Make, tmp_path: Path, file: str) -> None:
    """It counts as its null control, and that gain of 0 is ahead of an attack below its own."""
    failed = record(attack="broken", status=Status.ERROR, n=100, n_good=None, null_n_good=7, null_n_good_unique=7)
    below = record(attack="below", **good(5) | {"null_n_good_unique": 9, "null_images": good(9)["good_images"]})
    write_tables(tmp_path / "old", [below, failed])
    write_tables(tmp_path / "new", [failed.model_copy(update={"attack": "mine"}), record(attack="works", **good(20))])
    found = compare(tmp_path / "old" / file, tmp_path / "new" / file).only_new

    assert found[1] == "mine on faces-mlp-4 (buzaglo2023): every run failed"
    assert found[0] == "works on faces-mlp-4 (buzaglo2023): gain +20, ahead of below −4"


def test_one_line_names_all_victims_of_an_attack(bench: Callable[..., Any], record: Make, tmp_path: Path) -> None:
    write_tables(tmp_path / "old", [record(victim=f"v{place}") for place in range(3)])
    write_tables(tmp_path / "new", [])
    ended = bench("compare", tmp_path / "old", tmp_path / "new")

    assert "only in the old table: kkt on v0, v1, v2 (buzaglo2023)" in ended.out


def test_many_names_are_counted_by_attack_and_none_is_lost(
    bench: Callable[..., Any], record: Make, tmp_path: Path
) -> None:
    """A few runs beside a published board: its cells fill no screen, and another format names each."""
    many = [record(attack=f"a{place}", victim=f"v{place}") for place in range(8)]
    write_tables(tmp_path / "old", [*many, record(attack="a0", victim="v1")])
    write_tables(tmp_path / "new", [record(attack="mine", victim="v0")])
    ended = bench("compare", tmp_path / "old", tmp_path / "new")

    (line,) = (line for line in ended.out.splitlines() if line.startswith("only in the old table"))
    counts = ", ".join(["a0 (2)", *(f"a{place} (1)" for place in range(1, 8))])
    assert line == f"only in the old table: 9 cells on 8 victims, of {counts}; --format markdown names each"
    assert "only in the new table: mine on v0" in ended.out
    named = bench("compare", tmp_path / "old", tmp_path / "new", "--format", "markdown").out
    assert all(f"a{place} on v{place}" in named or f"a{place} on v0, v1" in named for place in range(8))


def test_twenty_new_cells_are_shown_and_the_others_counted(
    bench: Callable[..., Any], record: Make, tmp_path: Path
) -> None:
    write_tables(tmp_path / "old", [record(attack="mine", victim="v0")])
    write_tables(tmp_path / "new", [record(attack=f"a{place}", victim="v0", **good(place)) for place in range(23)])
    ended = bench("compare", tmp_path / "old", tmp_path / "new")

    lines = [line for line in ended.out.splitlines() if line.startswith("only in the new table")]
    assert len(lines) == 21
    assert lines[-1] == "only in the new table: 3 more; --format markdown names each"
    named = bench("compare", tmp_path / "old", tmp_path / "new", "--format", "markdown").out
    assert all(f"a{place} on v0" in named for place in range(23))


def test_a_missing_table_says_what_can_be_compared(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent.csv does not exist; name a leaderboard.csv, a runs.csv or a results"):
        compare(tmp_path / "absent.csv", tmp_path / "absent.csv")
