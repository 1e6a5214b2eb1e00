"""The entry points of installed packages, which a process reads once as long as nothing is installed meanwhile."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib import metadata
from pathlib import Path

Folders = tuple[tuple[str, int], ...]
"""The path on which packages lie, and when each of its folders was changed, in ns; 0 for one that is not there."""


def entry_points(group: str) -> metadata.EntryPoints:
    """Return the entry points of a group."""
    return _read(group, tuple((place, _changed(Path(place))) for place in sys.path))


@lru_cache(maxsize=16)
def _read(group: str, folders: Folders) -> metadata.EntryPoints:
    """Return them as they are; those of some hundred packages take longer to read than a short verb otherwise takes."""
    return metadata.entry_points(group=group)


def _changed(place: Path) -> int:
    try:
        return place.stat().st_mtime_ns
    except OSError:
        return 0
