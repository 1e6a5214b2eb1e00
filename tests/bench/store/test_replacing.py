"""What stays of a run where replacing it fails, and what is not taken for a run or for its number."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.store.folders import Store, write_record
from bench.store.records import RunRecord, Status

Make = Callable[..., RunRecord]


@pytest.fixture
def store(results: Path) -> Store:
    return Store(results)


def put(store: Store, record: RunRecord, folder: str = "") -> None:
    with store.writing(folder or record.run_id) as written:
        write_record(written, record)


def test_a_disk_that_fails_between_two_renames_costs_no_run(
    store: Store, record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, record(run_id="a-run"))
    rename, done = Path.replace, list[Path]()

    def fails(self: Path, target: Path) -> Path:
        if done:
            raise OSError("the disk is gone")
        done.append(target)
        return rename(self, target)

    with pytest.raises(OSError, match="gone"), store.writing("a-run") as folder:
        write_record(folder, record(run_id="a-run", seed=1))
        monkeypatch.setattr(Path, "replace", fails)
    monkeypatch.undo()
    assert store.find("a-run") == record(run_id="a-run")
    with store.claimed("a-run", lambda text: None):
        assert [path.name for path in store.runs.iterdir()] == ["a-run"]


def test_the_record_of_another_run_is_none(store: Store, record: Make) -> None:
    put(store, record(run_id="a-run"), folder="copied")
    assert store.find("copied") is None
    assert list(store.records()) == []


@pytest.mark.parametrize("status", [Status.OK, Status.TIMEOUT, Status.ERROR])
def test_a_checkpoint_is_for_who_goes_on_with_a_run_that_found_nothing(
    store: Store, record: Make, status: Status
) -> None:
    put(store, record(run_id="a-run", status=status))
    checkpoint = store.checkpoint("a-run")
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    with store.claimed("a-run", lambda text: None):
        assert checkpoint.exists() == (status is not Status.OK)


def test_a_table_of_the_same_size_may_hold_higher_numbers(store: Store) -> None:
    store.runs.mkdir(parents=True)
    table = store.root / "runs.csv"
    for number in (5, 9):
        table.write_text(f"run_id,sequence\nelsewhere,{number}\n")
        os.utime(table, (number, number))
        assert store.next_sequence() == number + 1


@pytest.mark.parametrize(
    ("module", "reading", "place"), [(Path, "read_text", "b-run/run.json"), (os, "listdir", "b-run")], ids=str
)
def test_a_run_that_is_replaced_while_all_are_read_is_among_them(
    store: Store, record: Make, monkeypatch: pytest.MonkeyPatch, module: Any, reading: str, place: str
) -> None:
    """Its folder is away when it is listed or read, and back before anybody looks beside its place."""
    for run_id in ("a-run", "b-run", "c-run"):
        put(store, record(run_id=run_id))
    here, away, met = store.runs / "b-run", store.runs / ".b-run.abcd1234.replaced", list[str]()
    read = getattr(module, reading)

    def while_away(path: Path, *rest: Any, **named: Any) -> Any:
        if met or not str(path).endswith(place):
            return read(path, *rest, **named)
        met.append(str(path))
        here.rename(away)
        try:
            return read(path, *rest, **named)
        finally:
            away.rename(here)

    monkeypatch.setattr(module, reading, while_away)
    assert [found.run_id for found in store.records()] == ["a-run", "b-run", "c-run"]
    assert len(met) == 1
    met.clear()
    assert len(store.attacked()) == 3
