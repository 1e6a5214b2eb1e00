"""Results in object storage: they are read as those on disk are, and a run copies there what it stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from bench.publish.leaderboard import write_tables
from bench.store.records import RunRecord, Status
from bench.store.remote import Mirror, fetched, is_copy
from victims.errors import UserError

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
    memory.rm("/bucket/results", recursive=True)


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
        (
            ("compare", "memory://absent/a.csv", "memory://absent/b.csv"),
            "memory://absent/a.csv cannot be read: there is no",
        ),
        (("compare", "file:///absent/a", "file:///absent/b"), "file:///absent/a cannot be read: there is no such file"),
        (("compare", "nowhere://a", "nowhere://b"), "nowhere://a cannot be read: Protocol not known: nowhere"),
        (("report", "--results-dir", PLACE), "results in object storage are only read; name the file to write"),
    ],
)
def test_what_cannot_be_read_is_one_line(bench: Bench, stored: Path, words: tuple[str, ...], told: str) -> None:
    ended = bench(*words)
    assert ended.status == 2
    assert told in ended.err
    assert len(ended.err.strip().splitlines()) == 1


def contents(folder: Path) -> dict[str, bytes]:
    """The files of the tables and of the runs below a results folder."""
    paths = [*folder.glob("*.csv"), *folder.glob("*.md"), *folder.glob("runs/[!.]*/*")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def bucket() -> Iterator[str]:
    yield "memory://bucket/copy"
    fsspec.filesystem("memory").rm("/bucket/copy", recursive=True)


def test_what_a_storage_raises_of_its_own_is_one_short_line(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class RefusedError(Exception):
        pass

    def refused(*words: object, **options: object) -> None:
        raise RefusedError("\x1b[31mno\nkey " + "x" * 10_000)

    monkeypatch.setattr(fsspec.filesystem("memory"), "get", refused)
    with pytest.raises(UserError) as told:
        fetched(PLACE)
    assert str(told.value).startswith(f"{PLACE} cannot be read (RefusedError: \\x1b[31mno key xx")
    assert len(str(told.value)) < 600


def test_a_run_copies_what_it_stores(run: Bench, results: Path, bucket: str) -> None:
    """The runs that were stored before are copied, too."""
    assert run("-a", "first-layer", "--controls", "quick").status == 0
    ended = run("-a", "random", "--controls", "quick", "--copy-to", bucket)
    assert ended.status == 0, ended.err
    assert contents(fetched(bucket)) == contents(results)
    assert len([name for name in contents(results) if name.endswith("run.json")]) == 2


@pytest.mark.parametrize("address", [Path.as_uri, str])
def test_a_folder_of_this_machine_is_made_where_it_is_missing(
    address: Callable[[Path], str], stored: Path, tmp_path: Path
) -> None:
    (stored / "runs" / "a").mkdir(parents=True)
    (stored / "runs" / "a" / "run.json").write_text("{}")
    there = tmp_path / "not" / "there"
    Mirror(address(there), stored, lambda _: None).close()
    assert contents(there) == contents(stored)


def test_what_changed_since_is_copied_again(stored: Path, bucket: str, tmp_path: Path) -> None:
    folder = stored / "runs" / "a"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    (folder / "log.txt").write_text("first")
    Mirror(bucket, stored, lambda _: None).close()
    (folder / "run.json").write_text("{ }")
    (folder / "log.txt").write_text("second")
    Mirror(bucket, stored, lambda _: None)
    assert contents(fetched(bucket)) == contents(stored)


def test_tables_of_other_runs_are_not_replaced(stored: Path, tmp_path: Path, record: Callable[..., RunRecord]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_tables(other, [record()])
    with pytest.raises(UserError, match=r"holds a runs.csv with runs that .*other does not have \(1\)"):
        Mirror(PLACE, other, lambda _: None)
    assert contents(fetched(PLACE)) == contents(stored)


def test_a_failure_that_a_run_of_another_id_replaced_here_locks_nothing(
    bucket: str, tmp_path: Path, record: Callable[..., RunRecord]
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    failed = record(run_id="absent", status=Status.ERROR, n_good=None)
    write_tables(folder, [failed])
    Mirror(bucket, folder, lambda _: None)
    found = [record(run_id="found", victim_key="k", victim_sha="a")]
    write_tables(folder, found)
    Mirror(bucket, folder, lambda _: None)
    assert contents(fetched(bucket)) == contents(folder)
    assert "absent" not in (folder / "runs.csv").read_text()

    write_tables(folder, [record(run_id="later", seed=1, status=Status.ERROR, n_good=None)])
    Mirror(bucket, folder, lambda _: None)
    (folder / "runs.csv").unlink()
    write_tables(folder, found)
    with pytest.raises(UserError, match=r"does not have \(1\)"):
        Mirror(bucket, folder, lambda _: None)


def test_tables_that_another_run_has_copied_meanwhile_stay(stored: Path, bucket: str, tmp_path: Path) -> None:
    notices: list[str] = []
    empty = tmp_path / "empty"
    empty.mkdir()
    mirror = Mirror(bucket, empty, notices.append)
    Mirror(bucket, stored, lambda _: None).close()
    mirror.close()
    assert len(notices) == 1 and "with runs that" in notices[0]
    assert contents(fetched(bucket)) == contents(stored)


class Fails:
    """A storage that fails for a while."""

    def __init__(self, system: Any, failures: int) -> None:
        self.system, self.failures = system, failures
        self.put: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.system, name)

    def put_file(self, here: str, there: str) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionResetError("try later")
        self.put.append(there)
        self.system.put_file(here, there)


@pytest.mark.parametrize(("failures", "told"), [(1, 0), (2, 1)])
def test_a_storage_that_fails_for_a_while_loses_nothing(stored: Path, bucket: str, failures: int, told: int) -> None:
    notices: list[str] = []
    mirror = Mirror(bucket, stored, notices.append)
    folder = stored / "runs" / "a"
    folder.mkdir(parents=True)
    for name in ("run.json", "trace.csv", "log.txt"):
        (folder / name).write_text(name)
    mirror._system = Fails(mirror._system, failures)
    mirror.follow("a")
    mirror.close()
    assert len(notices) == told
    assert not told or notices == [
        f"{bucket} cannot be written: try later; the next `run` with --copy-to copies what is missing"
    ]
    Mirror(bucket, stored, notices.append)
    assert contents(fetched(bucket)) == contents(stored)
    assert not mirror._system.put or mirror._system.put[2].endswith("run.json")  # a run without one is not whole


@pytest.mark.parametrize("address", ["nowhere://a", "file:///proc/none"])
def test_an_address_that_cannot_be_written_ends_the_run_before_it_begins(
    run: Bench, results: Path, address: str
) -> None:
    ended = run("-a", "first-layer", "--controls", "quick", "--copy-to", address)
    assert ended.status == 2
    assert f"{address} cannot be written" in ended.err
    assert len(ended.err.strip().splitlines()) == 1
    assert not list(results.glob("runs/*"))
