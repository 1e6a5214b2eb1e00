"""The verb `report`: what a results folder holds, as one page to look at or as tables for a paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from bench.publish.report.collect import collect
from bench.store.overwriting import require_no_result
from victims.errors import UserError
from victims.files import write_text

Format = Literal["html", "markdown", "latex", "csv"]
SUFFIXES: dict[Format, str] = {"html": "html", "markdown": "md", "latex": "tex", "csv": "csv"}
TITLE = "What trained networks give away"
MARKS: dict[Format, str] = {"html": TITLE, "markdown": TITLE, "latex": "booktabs,graphicx", "csv": "board_knowledge"}
"""By format, words that stand in the first `HEAD` bytes of every report."""
HEAD = 1000


def write_report(
    root: Path,
    output: Path | None = None,
    form: Format = "html",
    *,
    across_knowledge: bool = False,
    earlier: Sequence[Path] = (),
) -> Path:
    """Write the report of a results folder, without data sets, training or network.

    Args:
        root: the results folder; runs.csv is needed, run folders add figures and pictures.
        output: the file to write; `report.html` (.md, .tex, .csv) in the results folder if None.
        form: a page, or the boards as Markdown, LaTeX or CSV.
        across_knowledge: one board a victim, whatever its attacks were told.
        earlier: reports that show runs whose folders are gone, beside the one that the results folder holds.

    Returns:
        The file.

    Raises:
        UserError: there are no runs, runs.csv is damaged, or the file cannot be written, is one of the results, or is
            there and no report of this form.
    """
    own = root / f"report.{SUFFIXES[form]}"
    path = output or own
    require_no_result(path, own)
    report = collect(root, across_knowledge, earlier)
    if form == "html":
        from bench.publish.report.html import render

        text = render(report)
    else:
        from bench.publish.report.export import EXPORTS

        text = EXPORTS[form](report)
    if path.resolve() != own.resolve() and not _is_report(path, form):
        raise UserError(f"{path} is there and is no {form} report; name another file with --output")
    try:
        write_text(path, text)
    except OSError as error:
        raise UserError(f"cannot write {path} ({error.strerror}); name another file with --output") from None
    return path


def _is_report(path: Path, form: Format) -> bool:
    """Say whether a report may be written to a file: it is not there, is empty, or is a report of the same form."""
    if not path.is_file() or not path.stat().st_size:
        return True
    with path.open("rb") as file:
        return MARKS[form] in file.read(HEAD).decode(errors="replace")
