"""The columns of a printed board: which number of the leaderboard each shows, which null, and which way is better."""

from __future__ import annotations

import math
import re

import pytest

from bench.publish.report.columns import SHOWN, Column, filled
from bench.scoring import METRICS
from bench.store.records import ALIGNED_NULLS, NULLS

SHOWS = {
    "good": ("n_good", "null_n_good", "higher"),
    "gain": ("gain", "", "higher"),
    "unique": ("n_good_unique", "null_n_good_unique", "higher"),
    "assigned": ("n_good_assigned", "null_n_good_assigned", "higher"),
    "at 1% FP": ("n_good_at_1pct", "", "higher"),
    "SSIM top 10": ("ssim_top10", "", "higher"),
    "MSE": ("mse_mean", "oracle_mse", "lower"),
    "LPIPS": ("lpips_mean", "", "lower"),
    "KL": ("kl_mean", "", "lower"),
    "conf. AP": ("confidence_ap", "base_rate", "higher"),
    "time": ("wall_s", "", "lower"),
}
"""By heading."""
every_column = pytest.mark.parametrize("column", SHOWN, ids=lambda column: column.heading)


def test_a_heading_is_above_its_own_number_and_null() -> None:
    assert {column.heading: (column.name, column.null, column.better) for column in SHOWN} == SHOWS


@every_column
def test_a_column_writes_its_own_number_and_null(column: Column) -> None:
    row = {name: 2.0**place for place, name in enumerate(SHOWS[column.heading][:2]) if name}
    others = {name: 4096.0 for shown in SHOWS.values() for name in shown[:2] if name and name not in row}
    expected = f"{column.write(1)} ({column.write(2)})" if SHOWS[column.heading][1] else column.write(1)
    assert column.full_text(row | others) == expected


def test_the_better_way_is_that_of_the_metric() -> None:
    ways = {column.name.removesuffix("_mean"): column.better for column in SHOWN}
    assert {name: ways[name] for name in ("mse", "lpips", "kl")} == {
        name: METRICS[name].direction for name in ("mse", "lpips", "kl")
    }


def test_a_board_shows_the_columns_of_which_a_row_has_a_number() -> None:
    rows = [{"n_good": 9.0, "mse_mean": math.nan}, {"n_good": math.nan, "oracle_mse": 0.04, "base_rate": math.nan}]
    assert [column.heading for column in filled(rows)] == ["good", "MSE"]


def test_the_glossary_says_what_each_heading_is(page: str) -> None:
    """Once: the page's script shows the meaning at each of them."""
    named = set(re.findall(r'data-column="(\w+)"', page))
    assert {"gain", "n_good"} <= named
    for name in {*named, *NULLS, *ALIGNED_NULLS}:  # the null controls of a cell are named so too
        assert len(re.findall(rf'<dd id="meaning-{name}">[^<]+</dd>', page)) == 1
