"""Runs on disk: complete or absent."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.publish.leaderboard import write_tables
from bench.publish.runs_table import read_runs
from bench.store.folders import Store, write_record
from bench.store.records import RunRecord, Status
from victims.errors import UserError

Make = Callable[..., RunRecord]

KILLED = """
import os, signal, sys
from pathlib import Path
from bench.store.folders import Store, write_record
with Store(Path(sys.argv[1])).writing("a-run") as folder:
    (folder / "grid.png").write_text("new")
    (folder / "run.json").write_text(sys.argv[2])
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def store(results: Path) -> Store:
    return Store(results)


def put(store: Store, record: RunRecord) -> None:
    with store.writing(record.run_id) as folder:
        (folder / "run.json").write_text(record.model_dump_json())


def test_a_run_appears_when_it_is_whole(store: Store, record: Make) -> None:
    with store.writing("a-run") as folder:
        (folder / "run.json").write_text(record(run_id="a-run").model_dump_json())
        assert not (store.runs / "a-run").exists()
        assert list(store.records()) == []

    assert [path.name for path in store.runs.iterdir()] == ["a-run"]
    assert stat.S_IMODE((store.runs / "a-run").stat().st_mode) & 0o500 == 0o500
    assert store.find("a-run") == record(run_id="a-run")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_nothing(store: Store, error: type[BaseException]) -> None:
    with pytest.raises(error), store.writing("a-run") as folder:
        (folder / "run.json").write_text("{}")
        raise error

    assert list(store.runs.iterdir()) == []


def test_an_error_leaves_the_old_run(store: Store) -> None:
    with store.writing("a-run") as folder:
        (folder / "file").write_text("old")
    with pytest.raises(ValueError, match="broken"), store.writing("a-run") as folder:
        (folder / "file").write_text("new")
        raise ValueError("broken")

    assert [path.name for path in store.runs.iterdir()] == ["a-run"]
    assert (store.runs / "a-run" / "file").read_text() == "old"


def test_a_run_replaces_all_of_the_old_one(store: Store) -> None:
    for name in ("old", "new"):
        with store.writing("a-run") as folder:
            (folder / name).touch()

    assert [path.name for path in store.runs.iterdir()] == ["a-run"]
    assert [path.name for path in (store.runs / "a-run").iterdir()] == ["new"]


def test_a_kill_leaves_the_old_run(store: Store, record: Make, process: Callable[..., object]) -> None:
    old, new = record(run_id="a-run", n_good=1), record(run_id="a-run", n_good=2)
    put(store, old)
    process("-c", KILLED, store.root, new.model_dump_json())

    assert len(list(store.runs.iterdir())) == 2  # the killed one's folder stays, and counts for nothing
    assert list(store.records()) == [old]
    assert store.find("a-run") == old
    assert store.resolve("a-r") == store.runs / "a-run"
    put(store, new)
    assert list(store.records()) == [new]


@pytest.mark.parametrize("status", Status)
def test_whatever_ended_is_found(store: Store, record: Make, status: Status) -> None:
    put(store, record(run_id="a-run", status=status))

    found = store.find("a-run")
    assert found is not None
    assert found.status is status
    assert len(list(store.records())) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"run_id": 1}', b"\xff\xfe", b"null"])
def test_a_record_that_is_none_counts_as_absent(store: Store, record: Make, content: bytes) -> None:
    put(store, record(run_id="whole"))
    (store.runs / "damaged").mkdir()
    (store.runs / "damaged" / "run.json").write_bytes(content)
    (store.runs / "empty").mkdir()

    assert [found.run_id for found in store.records()] == ["whole"]
    assert store.find("damaged") is None
    assert store.find("empty") is None


@pytest.mark.parametrize(
    "fields",
    [{"n_good": -5}, {"n": 10**30}, {"n_good": 2**70}, {"attack_loss": math.inf}, {"good_images": "zz"}, {"seed": -1}],
)
def test_a_record_of_what_no_run_can_have_spoils_no_table(store: Store, record: Make, fields: dict[str, Any]) -> None:
    put(store, record(run_id="whole"))
    stored = {**record(run_id="odd").model_dump(mode="json"), **fields}
    (store.runs / "odd").mkdir()
    (store.runs / "odd" / "run.json").write_text(json.dumps(stored))

    assert store.find("odd") is None
    write_tables(store.root, store.records())
    assert read_runs(store.root / "runs.csv")["run_id"].tolist() == ["whole"]


def test_resolve_takes_the_start_of_one_id(store: Store, record: Make) -> None:
    for name in ("kkt-a-1", "kkt-a-2", "random-a"):
        put(store, record(run_id=name))

    assert store.resolve("kkt-a-2") == store.runs / "kkt-a-2"
    assert store.resolve("ran") == store.runs / "random-a"
    assert [store.resolve(prefix) for prefix in ("x", "", "a", "../runs/ran", "*")] == [None] * 5
    with pytest.raises(UserError, match="2 runs start with 'kkt': kkt-a-1, kkt-a-2"):
        store.resolve("kkt")


def test_a_results_folder_that_does_not_exist_is_made(store: Store) -> None:
    assert list(store.records()) == []
    assert store.resolve("a") is None
    store.require_writable()
    assert list(store.root.rglob("*")) == [store.runs]


def test_a_results_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot write to the results folder"):
        Store(tmp_path / "file" / "results").require_writable()


def test_a_record_that_cannot_be_read_is_set_aside_before_its_run_is_made_again(store: Store, record: Make) -> None:
    put(store, record(run_id="a-run"))
    notices: list[str] = []
    for number, content in enumerate((b"{", b"\xff", b"[]")):
        (store.runs / "a-run" / "run.json").write_bytes(content)
        with store.claimed("a-run", notices.append):
            assert not (store.runs / "a-run").exists()
        assert "a-run: its record cannot be read; set aside as" in notices[number]
        aside = store.root / "damaged" / (f"a-run.{number}" if number else "a-run")
        assert (aside / "run.json").read_bytes() == content
        put(store, record(run_id="a-run"))
    with store.claimed("a-run", notices.append):
        assert store.find("a-run") is not None
    assert len(notices) == 3


def leftover(store: Store, name: str) -> Path:
    folder = store.runs / name
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{")
    return folder


def test_what_the_dead_left_is_cleared_and_what_the_living_write_is_not(store: Store) -> None:
    dead = leftover(store, ".a-run.abcd1234.writing")
    with store.claimed("b-run", lambda text: None):
        living = leftover(store, ".b-run.abcd1234.writing")
        store.sweep()
        assert not dead.exists()
        assert living.exists()
    store.sweep()
    assert not living.exists()


def test_a_claim_clears_what_was_left_of_its_run(store: Store) -> None:
    own, other = leftover(store, ".a-run.abcd1234.writing"), leftover(store, ".a-run-2.abcd1234.writing")
    with store.claimed("a-run", lambda text: None):
        assert not own.exists()
        assert other.exists()


def test_a_kill_between_two_renames_loses_nothing(store: Store, record: Make) -> None:
    put(store, record(run_id="a-run"))
    (store.runs / "a-run").rename(store.runs / ".a-run.abcd1234.replaced")
    leftover(store, ".a-run.abcd1234.writing")
    assert store.find("a-run") == record(run_id="a-run")  # a reader does not wait until somebody has cleared up
    assert [found.run_id for found in store.records()] == ["a-run"]
    store.sweep()
    assert store.find("a-run") == record(run_id="a-run")
    assert [path.name for path in store.runs.iterdir()] == ["a-run"]


def test_folders_of_others_are_left_alone(store: Store, record: Make) -> None:
    put(store, record(run_id="a-run"))
    foreign = [leftover(store, name) for name in (".git", ".a-run.notes", ".backup.old", "notes")]
    store.sweep()
    with store.claimed("a-run", lambda text: None):
        pass
    assert all((folder / "run.json").exists() for folder in foreign)


def test_the_old_run_is_there_until_the_new_one_is(store: Store, record: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, record(run_id="a-run"))
    seen: list[RunRecord | None] = []
    rename = Path.replace

    def watched(self: Path, target: Path) -> Path:
        seen.append(Store(store.root).find("a-run"))
        moved = rename(self, target)
        seen.append(Store(store.root).find("a-run"))
        return moved

    with store.writing("a-run") as folder:
        write_record(folder, record(run_id="a-run", seed=1))
        monkeypatch.setattr(Path, "replace", watched)
    assert len(seen) == 4
    assert all(found is not None for found in seen)
    assert seen[-1] is not None
    assert seen[-1].seed == 1


def test_a_copy_of_a_run_shares_what_no_scoring_changes(store: Store, record: Make) -> None:
    with store.writing("a-run") as folder:
        write_record(folder, record(run_id="a-run"))
        (folder / "reconstruction.safetensors").write_bytes(b"large")
    inode = (store.folder("a-run") / "reconstruction.safetensors").stat().st_ino
    before = (store.folder("a-run") / "run.json").read_bytes()
    with pytest.raises(OSError, match="full"), store.writing("a-run", copied=True) as folder:
        write_record(folder, record(run_id="a-run", seed=1))
        raise OSError("full")
    assert (store.folder("a-run") / "run.json").read_bytes() == before
    with store.writing("a-run", copied=True) as folder:
        write_record(folder, record(run_id="a-run", seed=1))
    assert (store.folder("a-run") / "reconstruction.safetensors").stat().st_ino == inode
    assert [path.name for path in store.runs.iterdir()] == ["a-run"]


def test_the_number_of_a_run_rises_whatever_happens_to_the_counter(store: Store, record: Make) -> None:
    assert [store.next_sequence() for _ in range(3)] == [1, 2, 3]
    put(store, record(run_id="a-run", sequence=7))
    (store.work / "sequence").unlink()
    assert store.next_sequence() == 8
    (store.root / "runs.csv").write_text("run_id,sequence\nelsewhere,41\nolder,\n")
    assert store.next_sequence() == 42
    assert store.next_sequence() == 43


def test_what_was_half_written_beside_the_runs_is_cleared(store: Store) -> None:
    """A kill in the middle of an atomic write leaves its temporary file; that of a living process stays."""
    checkpoints = store.checkpoint("any").parent
    checkpoints.mkdir(parents=True)
    dead, living = (checkpoints / f".{name}-run.abcd1234.safetensors" for name in ("a", "b"))
    table, own = store.root / ".runs.abcd1234.csv", store.root / ".notes.of.mine.csv"
    for path in (dead, living, table, own):
        path.touch()
    with store.claimed("b-run", lambda text: None):
        living.touch()
        store.sweep()
        assert [path.exists() for path in (dead, living, table, own)] == [False, True, False, True]
    store.sweep()
    assert not living.exists()
