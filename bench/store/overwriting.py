"""What a user names as output must not take the place of results."""

from __future__ import annotations

from pathlib import Path

from victims.errors import UserError

OWN = ("knowledge.png", "report.html", "report.md", "report.tex", "report.csv")
"""Files of a results folder that the verbs `list` and `report` make, and make again."""


def require_no_result(path: Path, own: Path | None = None, option: str = "--output") -> None:
    """Check that a file may be written: it is new and no run's, made by these verbs, or in no results folder.

    Args:
        path: the file.
        own: the results folder that the file is made from; reports of others are results, None for any folder's.
        option: names another file.

    Raises:
        UserError: the file is part of a results folder.
    """
    place, own = path.resolve(), own and own.resolve()
    folder = next((folder for folder in place.parents if _holds_results(folder)), None)
    if folder is None or (place.parent == folder and place.name in OWN and own in (None, folder)):
        return
    if place.is_file() or place.is_relative_to(folder / "runs"):
        raise UserError(f"{path} holds results of {folder}, which would be lost; name another file with {option}")


def _holds_results(folder: Path) -> bool:
    return (folder / "runs.csv").is_file()
