"""What `compare` prints: for a terminal, for a pull request, for a program."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pandas as pd
from rich.table import Table

from bench.cli.tables import filled_table
from bench.publish.board_page import plain
from bench.publish.compare import Comparison, Name
from bench.store.cells import to_csv
from bench.terminal.progress import plural

HEADINGS = ["cell", "score", "old", "new", "change", "95% interval", "cause"]
LISTS = {
    "got worse": "regressions",
    "at or below its null in both": "by_chance",
    "not comparable": "not_comparable",
    "compared in part": "in_part",
    "only in the new table": "only_new",
    "only in the old table": "only_old",
}
"""The lists below the table: title, and attribute of the comparison."""
MOST_NAMES = 6
"""Lines of mere names on a terminal. More of them, as of a few runs beside a published board, would hide the rest."""

MOST_NEW = 20
"""Lines of new cells on a terminal. More of them, as of two tables given the wrong way round, would hide the rest."""


def table(comparison: Comparison) -> Table:
    """Return the scores that changed: old, new, their difference with its 95% interval, and the cause, once a cell."""
    return filled_table(HEADINGS, _rows(comparison))


def text(comparison: Comparison) -> str:
    """Return what stands below the table: how many cells are the same, and the lists."""
    lines = [f"{plural(comparison.same, 'cell')} unchanged."]
    for title, name in LISTS.items():
        cells = getattr(comparison, name)
        names = [cell for cell in cells if isinstance(cell, Name)]
        listed = _listed(cells)
        if len(listed) > MOST_NAMES and len(names) == len(cells):
            listed = [_folded(names)]
        elif name == "only_new" and len(listed) > MOST_NEW:
            listed = [*listed[:MOST_NEW], f"{len(listed) - MOST_NEW} more; --format markdown names each"]
        lines += [f"{title}: {line}" for line in listed]
    return "\n".join(lines)


def markdown(comparison: Comparison) -> str:
    """Return the whole comparison as Markdown, long lists folded."""
    cells = comparison.changed["cell"].nunique()
    counts = [f"{plural(cells, 'cell')} changed", f"{comparison.same} unchanged"]
    counts += [f"{len(getattr(comparison, name))} {title}" for title, name in LISTS.items()]
    parts = [", ".join(counts) + "."]
    if cells:
        rows = pd.DataFrame(_rows(comparison), columns=HEADINGS).map(plain)
        parts.append(rows.to_markdown(index=False, disable_numparse=True))
    for title, name in LISTS.items():
        if listed := getattr(comparison, name):
            items = "\n".join(f"* {plain(line)}" for line in _listed(listed))
            parts.append(f"<details><summary>{title}: {len(listed)}</summary>\n\n{items}\n\n</details>")
    return "\n\n".join(parts)


def csv(comparison: Comparison) -> str:
    """Return a row for each score that changed, and one for each line of the lists."""
    changed = comparison.changed.assign(what="changed")
    listed = [{"what": title, "cell": str(cell)} for title, name in LISTS.items() for cell in getattr(comparison, name)]
    columns = ["what", *comparison.changed.columns]
    rows = pd.DataFrame([*changed.to_dict("records"), *listed], columns=columns)
    return to_csv(rows).rstrip("\n")


def _listed(cells: Sequence[str | Name]) -> list[str]:
    """Return a line for each text, and one for all names that differ in their victim alone."""
    lines = [cell for cell in cells if not isinstance(cell, Name)]
    alike: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if isinstance(cell, Name):
            alike.setdefault((cell.attack, cell.scored), []).append(cell.victim)
    return lines + [str(Name(attack, ", ".join(victims), scored)) for (attack, scored), victims in alike.items()]


def _folded(names: Sequence[Name]) -> str:
    """Return many cells in a line: how many there are of each attack, and what names their victims."""
    cells = Counter(name.attack for name in names)
    told = ", ".join(f"{attack} ({number})" for attack, number in sorted(cells.items()))
    victims = plural(len({name.victim for name in names}), "victim")
    return f"{plural(len(names), 'cell')} on {victims}, of {told}; --format markdown names each"


def _rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the cells of the table, the name and the cause once a cell."""
    rows: list[tuple[str, ...]] = []
    last = ""
    for row in comparison.changed.to_dict("records"):
        name, cause = ("", "") if row["cell"] == last else (row["cell"], row["cause"])
        old, new = (_figure("{:.6g}", row[side]) for side in ("old", "new"))
        change = _figure("{:+.4g}", row["new"] - row["old"])
        interval = _figure("[{:+.4g}, {:+.4g}]", row["low"], row["high"])
        rows.append((name, row["score"], old, new, change, interval, cause))
        last = row["cell"]
    return rows


def _figure(form: str, *values: float) -> str:
    """Return numbers as text, empty if they are unknown."""
    return "" if any(math.isnan(value) for value in values) else form.format(*values)
