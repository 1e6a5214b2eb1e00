"""Keeps a file that the user names as output from replacing results."""

from __future__ import annotations

from pathlib import Path

from bench.store.file_names import REPORT, RUNS, TABLES, WORK
from victims.errors import UserError

PAGES = (REPORT, "report.md", "report.tex", "report.csv", "knowledge.png")
"""Files that the verbs `report` and `list` write into a results folder, by default or by custom."""


def require_no_result(path: Path, own: Path, option: str = "--output") -> None:
    """Check that writing a file replaces no result.

    Args:
        path: the file.
        own: the one file of a results folder that may be replaced, for it is made again.
        option: names another file.

    Raises:
        UserError: it is a table, lies among the runs, or is there and another file of a results folder.
    """
    place = path.resolve()
    folder = next((folder for folder in place.parents if holds_results(folder)), None)
    if place == own.resolve() and place.name not in TABLES:
        return
    lost = folder is not None and (place.is_file() or place.is_relative_to(folder / RUNS))
    if lost or place.name in TABLES:
        where = place.parent if folder is None else folder
        raise UserError(f"{path} is a file of the results folder {where}; name another one with {option}")


def holds_results(folder: Path) -> bool:
    """Say whether a folder holds runs or tables of them."""
    stored = (folder / RUNS).is_dir() and (folder / WORK).is_dir()
    return stored or any((folder / name).is_file() for name in TABLES)
