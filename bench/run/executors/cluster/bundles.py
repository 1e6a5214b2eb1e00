"""Files as they travel between machines: by name, relative to a folder that each machine has of its own."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PurePosixPath

from victims.files import atomic

FileBundle = dict[str, bytes]
"""Contents of files by their place in a folder, with "/" between its parts."""
Stamps = dict[Path, tuple[int, int]]
"""Sizes of files in bytes, and their times in ns: together with their places they tell what has changed."""
LOCKS = ("lock", ".lock")
"""Ends of the names of files that belong to the processes of one machine."""


def pack(root: Path, patterns: Iterable[str]) -> FileBundle:
    """Return the files below a folder that globs name; locks, and files that are being written, stay where they are."""
    bundle: FileBundle = {}
    for path in _files(root, patterns):
        with suppress(FileNotFoundError):
            bundle[path.relative_to(root).as_posix()] = path.read_bytes()
    return bundle


def stamp(path: Path) -> tuple[int, int]:
    """Return a file's size in bytes and its time in ns."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def stamps(root: Path, patterns: Iterable[str]) -> Stamps:
    """Return the stamps of the files that `pack` would pack."""
    found: Stamps = {}
    for path in _files(root, patterns):
        with suppress(FileNotFoundError):
            found[path] = stamp(path)
    return found


def _files(root: Path, patterns: Iterable[str]) -> list[Path]:
    found = {path for pattern in patterns for path in root.glob(pattern)}
    own = {path for path in found if path.name.startswith(".") or path.name.endswith(LOCKS)}
    return sorted(path for path in found - own if path.is_file())


def unpack(bundle: FileBundle, root: Path) -> None:
    """Write files below a folder, each of them whole or not at all.

    Raises:
        ValueError: a name leads out of the folder.
        OSError: the folder cannot be written.
    """
    for name, content in bundle.items():
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts or not place.parts:
            raise ValueError(f"the file {name!r} of a bundle lies outside its folder")
        with atomic(root / place) as path:
            path.write_bytes(content)


def size(bundle: FileBundle) -> int:
    """Return the bytes of a bundle's files."""
    return sum(map(len, bundle.values()))
