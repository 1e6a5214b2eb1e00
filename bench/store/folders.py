"""Runs on disk: one folder a run, complete or absent, and the tables made from them."""

from __future__ import annotations

import csv
import fnmatch
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from bench.store.file_names import (
    ANY_RECORD,
    CHECKPOINTS,
    LOG,
    RECONSTRUCTION,
    RECORD,
    RUNS,
    RUNS_CSV,
    TRACE,
    WORK,
    record_name,
)
from bench.store.possible import require_possible
from bench.store.records import RENAMED, RunRecord, Status, require_known_schema
from victims.cache import DAMAGED
from victims.errors import UserError
from victims.files import exclusive, set_aside, umask, write_text

WRITING, REPLACED = ".writing", ".replaced"
"""The ends of the names of a folder that is being written, and of one that is being replaced."""
TEMPORARY_TABLES = (".runs.*.csv", ".leaderboard.*.csv", ".leaderboard.*.md")
"""Names of tables that are being written, in the results folder."""
KEPT = (RECONSTRUCTION, TRACE, LOG)
"""Files of a run that no scoring changes: a copy of its folder shares them."""


class Store:
    """The results folder: `runs/<run_id>/`, runs.csv and leaderboard.csv.

    Several processes may use it at once: a run is written by who has claimed it, the tables by who holds their lock.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs = root / RUNS
        self.work = root / WORK
        self._table_known, self._table_sequence = (0, 0, 0), 0

    def require_writable(self, option: str = "--results-dir") -> None:
        """Make the folder, and see that it can be written before any work is done.

        Args:
            option: names another folder.

        Raises:
            UserError: it cannot.
        """
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.runs):
                pass
        except OSError as error:
            hint = f"choose another folder with {option}"
            raise UserError(f"cannot write to the results folder {self.root} ({error.strerror}); {hint}") from None

    def find(self, run_id: str, protocol: str = "") -> RunRecord | None:
        """Return the record of a stored run, however it ended, None if there is none that can be read.

        Args:
            run_id: the run.
            protocol: return its record under this other protocol; empty for its own.

        Raises:
            UserError: the record is of a newer schema; `records` and `attacked` raise it too.
        """
        name = record_name(protocol)
        read = (self._read(folder / name, run_id) for folder in self._folders(run_id))
        return next((record for record in read if record is not None), None)

    def records(self) -> Iterator[RunRecord]:
        """Yield the records of all stored runs that failed, were skipped or have scores, one per protocol."""
        for run_id in self._ids():
            read = dict[str, RunRecord | None]()
            for folder in self._folders(run_id):
                names = sorted(fnmatch.filter(_names(folder), ANY_RECORD))
                read = {name: self._read(folder / name, run_id) for name in names}
                if RECORD in read and None not in read.values():
                    break
            yield from (record for record in read.values() if record is not None and not record.pending)

    def attacked(self) -> list[RunRecord]:
        """Return the own records of all stored runs whose reconstruction can be scored, scored or not."""
        found = map(self.find, self._ids())
        return [record for record in found if record is not None and record.status is Status.OK]

    def next_sequence(self) -> int:
        """Return the number of the next run that is stored here, higher than the number of any run before it."""
        with self.tables():
            counter = self.work / "sequence"
            try:
                last = int(counter.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                last = max((record.sequence for record in self.records()), default=0)
            number = max(last, self._highest_sequence()) + 1
            write_text(counter, str(number))
        return number

    def _highest_sequence(self) -> int:
        """Return the highest number of a run in runs.csv, 0 if there is none; it is read when it has changed."""
        table = self.root / RUNS_CSV
        try:
            status = table.stat()
        except OSError:
            return 0
        known = status.st_mtime_ns, status.st_size, status.st_ino
        if known != self._table_known:
            self._table_known, self._table_sequence = known, _highest_sequence(table)
        return self._table_sequence

    def folder(self, run_id: str) -> Path:
        """Return the folder of a run, stored or not."""
        return self.runs / run_id

    def checkpoint(self, run_id: str) -> Path:
        """Return the file that holds the state of a run's unfinished attack."""
        return self.root / CHECKPOINTS / f"{run_id}.safetensors"

    @contextmanager
    def claimed(self, run_id: str, notice: Callable[[str], None]) -> Iterator[None]:
        """Lock a run, remove what a killed process left of it, and set damaged files aside.

        Args:
            run_id: the run, stored or not.
            notice: told in one line that another process is at it, and that this one waits; and of damage.
        """
        with exclusive(self._lock(run_id), lambda: notice(f"{run_id}: another process is at it; waiting")):
            self._clear(run_id)
            if self.folder(run_id).exists() and self.find(run_id) is None:
                aside = set_aside(self.folder(run_id), self.root / DAMAGED)
                notice(f"{run_id}: its record cannot be read; set aside as {aside}")
            yield

    def tables(self) -> AbstractContextManager[None]:
        """Return what locks the tables in a block."""
        return exclusive(self._lock("tables"))

    def sweep(self) -> None:
        """Remove what killed processes left behind; what living ones write, and foreign files, stay."""
        checkpoints = self.checkpoint("any").parent
        unfinished = self._between(f".*{WRITING}") | self._between(f".*{REPLACED}")
        for name in _names(checkpoints):  # that of a half-written one is .ID.RANDOM.safetensors
            unfinished.add(name[1:].rsplit(".", 2)[0] if name.startswith(".") else Path(name).stem)
        for run_id in unfinished:
            try:
                with FileLock(self._lock(run_id), timeout=0):
                    self._clear(run_id)
            except Timeout:
                continue
        try:
            with FileLock(self._lock("tables"), timeout=0):
                for left in (path for name in TEMPORARY_TABLES for path in self.root.glob(name)):
                    left.unlink(missing_ok=True)
        except Timeout:
            return

    def _between(self, pattern: str) -> set[str]:
        """Return the ids of runs with a temporary folder that a pattern matches."""
        return {
            name[1:].rsplit(".", 2)[0] for name in fnmatch.filter(_names(self.runs), pattern) if name.count(".") > 2
        }

    def _lock(self, name: str) -> Path:
        return self.work / "locks" / name

    def _clear(self, run_id: str) -> None:
        """Remove what a killed writer left of a run; the caller holds the run's lock."""
        for left in self._temporary(run_id):
            if left.suffix == REPLACED and not (self.runs / run_id).exists():  # a kill between the two renames
                left.replace(self.runs / run_id)
            else:
                shutil.rmtree(left, ignore_errors=True)
        checkpoint = self.checkpoint(run_id)
        for half in checkpoint.parent.glob(f".{run_id}.*{checkpoint.suffix}"):
            half.unlink(missing_ok=True)
        stored = self._read(self.runs / run_id / RECORD, run_id)
        if stored is not None and stored.status is Status.OK:
            checkpoint.unlink(missing_ok=True)

    def resolve(self, prefix: str) -> Path | None:
        """Return the folder of the one run whose id starts with `prefix`, or None if there is none.

        Raises:
            UserError: several runs start like that.
        """
        if not prefix or "/" in prefix:
            return None
        found = (self.runs / run_id for run_id in self._ids() if run_id.startswith(prefix))
        folders = [folder for folder in found if (folder / RECORD).is_file()]
        if len(folders) > 1:
            raise UserError(f"{len(folders)} runs start with {prefix!r}: {', '.join(path.name for path in folders)}")
        return folders[0] if folders else None

    @contextmanager
    def writing(self, run_id: str, copied: bool = False) -> Iterator[Path]:
        """Yield a folder for a run's files that takes its place under `run_id` when the block ends without error.

        Args:
            run_id: the run.
            copied: whether the folder begins as a copy of the stored one.
        """
        self.runs.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=self.runs, prefix=f".{run_id}.", suffix=WRITING))
        final, replaced = self.runs / run_id, temporary.with_suffix(REPLACED)
        try:
            temporary.chmod(0o777 & ~umask())
            if copied:
                _copy(final, temporary)
            yield temporary
            if final.exists():
                final.replace(replaced)
            temporary.replace(final)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            if final.exists():
                shutil.rmtree(replaced, ignore_errors=True)

    def _ids(self) -> list[str]:
        """Return the ids of all runs that have a folder, be it one that is being replaced."""
        visible = {name for name in _names(self.runs) if not name.startswith(".")}
        return sorted(visible | self._between(f".*{REPLACED}"))

    def _folders(self, run_id: str) -> Iterator[Path]:
        """Yield where a run is: in its place, while it is replaced or after a kill beside it, then in its place."""
        yield self.runs / run_id
        yield from (left for left in self._temporary(run_id) if left.suffix == REPLACED)
        yield self.runs / run_id

    def _temporary(self, run_id: str) -> list[Path]:
        """Return the folders of a run that is being written or replaced, or was when its process was killed."""
        own = (name for name in _names(self.runs) if name.startswith(f".{run_id}."))
        return [self.runs / name for name in own if name.endswith((WRITING, REPLACED))]

    @staticmethod
    def _read(path: Path, run_id: str) -> RunRecord | None:
        """Return a stored record, or None if it is absent, damaged, or the record of another run.

        Raises:
            UserError: it is of a newer schema.
        """
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(stored, dict):
                require_known_schema(stored.get("schema_version"), path)
                stored = {RENAMED.get(name, name): value for name, value in stored.items()}
            record = RunRecord.model_validate(stored)
            require_possible(record)
        except (OSError, ValueError, RecursionError):  # a ValidationError is a ValueError
            return None
        return record if record.run_id == run_id else None


def _names(folder: Path) -> list[str]:
    """Return the names in a folder, none if it is away: one pass, which a folder that vanishes in it does not end."""
    try:
        return os.listdir(folder)  # noqa: PTH208 `glob` and `iterdir` look again at each name, or fail
    except (FileNotFoundError, NotADirectoryError):
        return []


def _highest_sequence(table: Path) -> int:
    """Return the highest number of a run in a runs.csv, which may be of another machine; 0 if there is none."""
    try:
        with table.open(newline="", encoding="utf-8") as lines:
            numbers = [row.get("sequence") or "" for row in csv.DictReader(lines)]
    except (OSError, ValueError, csv.Error):
        return 0
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def _copy(source: Path, target: Path) -> None:
    """Copy a run's files. Files that never change are linked, which takes no room on a full disk."""
    for path in source.iterdir():
        if path.name in KEPT:
            try:
                (target / path.name).hardlink_to(path)
                continue
            except OSError:  # the file system has no such links
                pass
        shutil.copy2(path, target / path.name)


def write_record(folder: Path, record: RunRecord, protocol: str = "") -> None:
    """Write a run's record into its folder: its own, or its record under another protocol."""
    write_text(folder / record_name(protocol), record.model_dump_json(indent=1))
