"""Tables that `verify` makes again from runs.csv, beside those that are stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bench.publish.claims.tables import Tables, made_of_runs
from bench.publish.leaderboard import write_tables
from bench.store.records import RunRecord

Make = Callable[..., RunRecord]


def test_a_board_that_is_no_text_is_another_one(record: Make, tmp_path: Path) -> None:
    write_tables(tmp_path, [record()])
    (tmp_path / "leaderboard.md").write_bytes(b"\xff\xfe no text")
    (finding,) = made_of_runs(Tables(tmp_path))
    assert finding.text == "leaderboard.md"
    assert "line 1 is not what runs.csv makes" in finding.why


def test_a_board_that_lost_its_last_row_is_another_one(record: Make, tmp_path: Path) -> None:
    write_tables(tmp_path, [record(), record(attack="last", n_good=0)])
    board = tmp_path / "leaderboard.csv"
    board.write_text("".join(board.read_text().splitlines(keepends=True)[:-1]))
    (finding,) = made_of_runs(Tables(tmp_path))
    assert (finding.text, "line 3 is not what runs.csv makes" in finding.why) == ("leaderboard.csv", True)
