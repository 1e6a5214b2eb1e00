"""Results in object storage (`s3://`, `gs://`, ...), through fsspec: copied here to be read, there to be kept."""

from __future__ import annotations

import atexit
import csv
import io
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.store.file_names import RECORD, RECORDS, RUNS, RUNS_CSV, TABLES
from bench.store.records import CELL, FAILED
from bench.terminal.text import describe, one_line
from victims.errors import UserError

SCHEME = "://"
FOLDERS = ("file://", "local://")
"""Schemes of addresses on this machine."""
PREFIX = "reconstruction-bench-copy-"


def fetched(location: str) -> Path:
    """Return the path at which a file or folder can be read; an address is copied, until the program ends.

    Args:
        location: a path, or an address that fsspec knows; `s3://` needs the package s3fs, `gs://` gcsfs.

    Raises:
        UserError: no package knows such addresses, or nothing can be read there.
    """
    if SCHEME not in location:
        return Path(location)
    folder = tempfile.mkdtemp(prefix=PREFIX)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = Path(folder) / (Path(location).name or "results")
    with _told(location, "read"):
        system, path = _found(location)
        is_folder = system.isdir(path)
        system.get(
            f"{path.rstrip('/')}/" if is_folder else path, f"{copy}/" if is_folder else str(copy), recursive=True
        )
    return copy


def is_copy(path: Path) -> bool:
    """Say whether a path is what `fetched` returned for an address."""
    return path.parent.name.startswith(PREFIX)


class Mirror:
    """A copy of a results folder in object storage that follows the folder; nothing is removed there.

    A run's record is put there last: a run that has none there was not copied whole.

    Args:
        location: an address that fsspec knows, or a path.
        root: the results folder. Its tables, and the runs that are absent there or have a record of another size, are
            copied at once.
        notice: told in a line what could not be copied.

    Raises:
        UserError: no package knows such addresses, nothing can be written there, or its tables list runs that the
            folder does not have.
    """

    def __init__(self, location: str, root: Path, notice: Callable[[str], None]) -> None:
        self.location, self.root, self.notice = location, root, notice
        self._left: dict[str, None] = {}
        with _told(location, "written"):
            self._system, self._place = _found(location)
            self._place = self._place.rstrip("/")
        self._keep_foreign()
        with _told(location, "written"):
            self._put_tables()
            for run_id in self._absent():
                self._put_run(run_id)

    def follow(self, run_id: str) -> None:
        """Copy a run, if it is stored; one that cannot be copied now is tried again at the end."""
        if not (self.root / RUNS / run_id / RECORD).exists():
            return
        try:
            with _told(self.location, "written"):
                self._put_run(run_id)
        except UserError:
            self._left[run_id] = None

    def close(self) -> None:
        """Copy the tables, and what could not be copied before."""
        try:
            self._keep_foreign()
            with _told(self.location, "written"):
                for run_id in list(self._left):
                    self._put_run(run_id)
                    del self._left[run_id]
                self._put_tables()
        except UserError as error:
            self.notice(f"{error}; the next `run` with --copy-to copies what is missing")

    def _keep_foreign(self) -> None:
        """Raise a UserError where the tables there list runs that the folder does not have."""
        with _told(self.location, "written"):
            place = f"{self._place}/{RUNS_CSV}"
            there = _rows(self._system.cat_file(place)) if self._system.exists(place) else []
        own = self.root / RUNS_CSV
        here = _rows(own.read_bytes()) if own.exists() else []
        runs, measured = {row.get("run_id") for row in here}, {_measured(row) for row in here}
        # a failure is replaced by what was found since, which may have another id, as where data were absent
        lost = [row for row in there if row.get("status") not in FAILED or _measured(row) not in measured]
        foreign = {row.get("run_id") for row in lost} - runs
        if foreign:
            raise UserError(
                f"{self.location} holds a {RUNS_CSV} with runs that {self.root} does not have ({len(foreign)}), and "
                "would lose them; copy to another place, and join the two by `merge`"
            )

    def _absent(self) -> list[str]:
        there = self._system.glob(f"{self._place}/{RUNS}/*/{RECORD}", detail=True)
        sizes = {name.rsplit("/", 2)[1]: found["size"] for name, found in there.items()}
        here = sorted((self.root / RUNS).glob(RECORDS))
        return [path.parent.name for path in here if sizes.get(path.parent.name) != path.stat().st_size]

    def _put_run(self, run_id: str) -> None:
        folder = self.root / RUNS / run_id
        for path in sorted(folder.iterdir(), key=lambda path: path.name == RECORD):
            self._put(path)

    def _put_tables(self) -> None:
        for path in (self.root / name for name in TABLES):
            if path.exists():
                self._put(path)

    def _put(self, path: Path) -> None:
        self._system.put_file(str(path), f"{self._place}/{path.relative_to(self.root).as_posix()}")


def _rows(table: bytes) -> list[dict[str, str]]:
    """Return the rows of a runs.csv."""
    return list(csv.DictReader(io.StringIO(table.decode(), newline="")))


def _measured(row: dict[str, str]) -> tuple[str | None, ...]:
    """Return cell and seeds of a row of a runs.csv, without its victim's key, which is empty if data were absent."""
    return tuple(row.get(name) for name in (*CELL, "victim_seed", "seed") if name != "victim_key")


def _found(location: str) -> tuple[Any, str]:
    """Return the file system of an address, and the place in it."""
    from fsspec.core import url_to_fs

    # other storages have no folders that must be there before their files
    own = {"auto_mkdir": True} if SCHEME not in location or location.startswith(FOLDERS) else {}
    system, place = url_to_fs(location, **own)
    return system, str(place)


@contextmanager
def _told(location: str, done: str) -> Iterator[None]:
    """Tell in one line what goes wrong with an address."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{location} cannot be {done}: there is no such file or folder") from None
    except (ImportError, OSError, ValueError) as error:
        reason = one_line(str(error)) or type(error).__name__
        raise UserError(f"{location} cannot be {done}: {reason}") from None
    except Exception as error:  # each storage has exceptions of its own, such as for keys that are refused
        raise UserError(f"{location} cannot be {done} ({describe(error)})") from None
