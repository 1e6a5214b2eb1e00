"""Text in the cells of a table that a spreadsheet may open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.publish.leaderboard import write_tables
from bench.publish.runs_table import read_runs
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
