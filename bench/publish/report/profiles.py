"""What the report says of each attack: its equation, what it must know, where it works and where it does not."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from bench.plan import registry
from bench.publish.best import lead, network, once
from bench.publish.published import Published, beside
from bench.publish.report.collect import Entry, Report, Row, cell_of


@dataclass(frozen=True)
class Profile:
    """An attack in a results folder.

    Attributes:
        name: its name.
        summary: its idea or equation, "" for an attack that is not known here; likewise `paper`.
        paper: where it comes from.
        needs: what it must know at least.
        best: the entry that is sure of the largest share of images, None if nothing beats its null control.
        beaten: networks on which it beats its strictest null control.
        missed: victims of the networks on which it does not.
        papers: our number, that of the best row on the victim, and the paper's.
    """

    name: str
    summary: str
    paper: str
    needs: tuple[str, ...]
    best: Entry | None
    beaten: int
    missed: tuple[str, ...]
    papers: tuple[tuple[str, Published], ...]


def profiles(report: Report) -> list[Profile]:
    """Return the profile of each attack that was run, by name; null controls have none."""
    board = pd.DataFrame([entry.row for entry in report.entries.values() if not entry.control])
    if board.empty:
        return []
    grouped: dict[str, list[Row]] = {}
    for row in once(board).to_dict("records"):
        grouped.setdefault(str(row["attack"]), []).append(row)
    known = registry.attacks().items
    found = []
    for name, rows in sorted(grouped.items()):
        kind = known.get(name)
        best = max((row for row in rows if row["rank"]), key=lead, default=None)
        beaten = {network(row) for row in rows if row["rank"]}
        found.append(
            Profile(
                name=name,
                summary=kind.summary if kind is not None else "",
                paper=kind.paper if kind is not None else "",
                needs=tuple(sorted(kind.needs)) if kind is not None else (),
                best=report.entries[cell_of(best)] if best is not None else None,
                beaten=len(beaten),
                missed=tuple(sorted({str(row["victim"]) for row in rows if network(row) not in beaten})),
                papers=tuple({paper: (ours, paper) for row in reversed(rows) for ours, paper in beside(row)}.values()),
            )
        )
    return found
