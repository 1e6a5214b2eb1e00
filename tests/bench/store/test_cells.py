"""Text in the cells of a table that a spreadsheet may open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.publish.leaderboard import write_tables
from bench.publish.runs_table import read_runs
from bench.store.cells import read_cells
from bench.store.good_images import encode
from bench.store.records import RunRecord

Make = Callable[..., RunRecord]


def test_a_formula_in_a_table_is_text_and_comes_back_as_it_was(record: Make, tmp_path: Path) -> None:
    formula = '=HYPERLINK("http://example.org")'
    write_tables(tmp_path, [record(variant=formula, reason="'=2", cpu="-1")])
    write_tables(tmp_path, [])  # reads what it wrote, and writes it again
    (run,) = read_runs(tmp_path / "runs.csv").to_dict("records")

    assert (run["variant"], run["reason"], run["cpu"]) == (formula, "'=2", "-1")
    for name in ("runs.csv", "leaderboard.csv"):
        assert "'=HYPERLINK" in (tmp_path / name).read_text()
        assert ",=" not in (tmp_path / name).read_text()


def test_a_cell_that_tells_many_images_is_read(bench: Callable[..., Any], record: Make, tmp_path: Path) -> None:
    n = 300_000
    found = {"n": n, "good_images": encode([True] * n)}
    for name, seeds in (("old", (0, 1)), ("new", (0, 2))):
        write_tables(tmp_path / name, [record(seed=seed, **found) for seed in seeds])
    assert len(read_cells(tmp_path / "old" / "leaderboard.csv")["good_images"][0]) > 131_072
    ended = bench("compare", *(tmp_path / name / "leaderboard.csv" for name in ("old", "new")))
    assert (ended.status, ended.err) == (0, "")
