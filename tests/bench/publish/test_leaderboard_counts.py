"""Every count of good images on the board has its own null control: beside it, and in its place where a run failed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.publish.leaderboard import write_tables
from bench.store.records import COUNTS, RunRecord, Status

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
