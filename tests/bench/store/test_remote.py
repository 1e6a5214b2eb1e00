"""Results in object storage: they are read as those on disk are, and nothing is written there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from bench.publish.leaderboard import write_tables
from bench.store.records import RunRecord
from bench.store.remote import fetched, is_copy

PLACE = "memory://bucket/results"
Bench = Callable[..., Any]


@pytest.fixture
def stored(tmp_path: Path, record: Callable[..., RunRecord]) -> Iterator[Path]:
    """A results folder, and the same one in storage."""
    folder = tmp_path / "results"
    folder.mkdir()
    write_tables(folder, [record(), record(seed=1, run_id="kkt-faces-mlp-4-s1-0123456789", n_good=1)])
    memory = fsspec.filesystem("memory")
    memory.put(f"{folder}/", "/bucket/results/", recursive=True)
    yield folder
    memory.rm("/bucket", recursive=True)


def test_a_folder_and_a_file_are_read_whole(stored: Path) -> None:
    copy = fetched(PLACE)
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == {
        path.name: path.read_bytes() for path in stored.iterdir()
    }
    assert fetched(f"{PLACE}/runs.csv").read_bytes() == (stored / "runs.csv").read_bytes()
    assert is_copy(copy)
    assert not is_copy(stored)
    assert fetched(str(stored)) == stored


def test_the_verbs_that_read_take_an_address(bench: Bench, stored: Path, tmp_path: Path) -> None:
    compared = bench("compare", f"{PLACE}/leaderboard.csv", stored / "leaderboard.csv")
    assert (compared.status, compared.out.splitlines()[0]) == (0, "1 cell unchanged.")
    tables = ("report", "--format", "csv")
    assert bench(*tables, "--results-dir", PLACE, "--output", tmp_path / "there.csv").status == 0
    assert bench(*tables, "--results-dir", stored, "--output", tmp_path / "here.csv").status == 0
    assert (tmp_path / "there.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("compare", "memory://absent/a.csv", "memory://absent/b.csv"), "memory://absent/a.csv cannot be read"),
        (("compare", "nowhere://a", "nowhere://b"), "nowhere://a cannot be read: Protocol not known: nowhere"),
        (("report", "--results-dir", PLACE), "results in object storage are only read; name the file to write"),
    ],
)
def test_what_cannot_be_read_is_one_line(bench: Bench, stored: Path, words: tuple[str, ...], told: str) -> None:
    ended = bench(*words)
    assert ended.status == 2
    assert told in ended.err
    assert len(ended.err.strip().splitlines()) == 1
