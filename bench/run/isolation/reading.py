"""Flags for files that an attack reads without having declared them, found by Python's audit hook.

Reads by native code, and by processes that the attack starts, are not seen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.store.file_names import RUNS

MOST = 3
"""The number of places that flags name."""
SOURCES = (".py", ".pyc")
"""What Python reads by itself, to import a module or to show a line of it."""
_PROGRAM = tuple(
    os.path.realpath(Path(__file__).parents[3] / name) for name in ("attacks", "bench", "victims")
) + tuple(map(os.path.realpath, (sys.prefix, sys.base_prefix)))
"""What a data folder may hold beside data, such as that of `--data-dir .`: this program, and Python's packages."""
READS = ("open", "os.listdir", "os.scandir")
"""Audit events of Python that read files or folders."""


def guarded_places(dataset: str, data_dir: Path | None, results_dir: Path) -> tuple[str, ...]:
    """Return the files and folders that hold training data, trained victims, and what others reconstructed.

    Args:
        dataset: the victim's.
        data_dir: the data folder, None for the default.
        results_dir: the results folder.
    """
    from victims.cache import cache_dir
    from victims.dataset_files import DOWNLOADED, SHIPPED, dataset_paths
    from victims.errors import UserError

    folders = set()
    for name in (*SHIPPED, *DOWNLOADED):
        with suppress(UserError):  # a data folder that is not there holds nothing
            folders |= {path.parent for path in dataset_paths(name, data_dir)}
    kept = {cache_dir() / "victims", cache_dir() / "controls", results_dir / RUNS}
    return tuple(sorted(map(str, {*dataset_paths(dataset, data_dir)} | folders | kept)))


class Readings:
    """Notes which guarded files this process opens, from `arm` on until it ends.

    Args:
        guarded: files and folders.
    """

    def __init__(self, guarded: Iterable[str]) -> None:
        self._guarded = tuple(os.path.realpath(place) for place in guarded)
        self._seen: dict[str, None] = {}

    def arm(self) -> None:
        """Begin to watch; a hook cannot be removed again."""
        sys.addaudithook(self._hear)

    @property
    def flags(self) -> tuple[str, ...]:
        """A flag for each file that was read, at most `MOST`."""
        return tuple(f"undeclared_read: {Path(place).name}" for place in list(self._seen)[:MOST])

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in READS or not arguments or (event == "open" and _only_writes(arguments[1])):
            return
        if isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if path.endswith(SOURCES):
                return
            if _within(path, self._guarded) and not _within(path, _PROGRAM) and not _searched(event, path):
                self._seen[path] = None


def _within(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(f"{place}{os.sep}") for place in places)


def _searched(event: str, path: str) -> bool:
    """Say whether Python lists a folder in which it looks for modules."""
    return event != "open" and path in map(os.path.realpath, sys.path)


def _only_writes(mode: object) -> bool:
    return isinstance(mode, str) and "r" not in mode and "+" not in mode
