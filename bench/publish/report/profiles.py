"""What the report says of each attack: its equation, what it must know, where it works; and of a network's recipe."""

from __future__ import annotations

import inspect
import math
import re
from dataclasses import dataclass

import pandas as pd
from pydantic import BaseModel

from bench.publish.best import best_of_families, definitions_of, families_of, lead, network, once
from bench.publish.parameters import known_attacks, known_victim, known_victims
from bench.publish.published import Published, beside
from bench.publish.ranking import Row, cell_of, conflicts
from bench.publish.report.collect import Entry, Report, gain_share

OURS = ("after ", "beyond ", "baseline")
"""What begins the source of an attack that is no paper's own."""


@dataclass(frozen=True)
class Profile:
    """An attack in a results folder.

    Attributes:
        name: its name.
        summary: its idea or equation, "" for an attack that is not known here; likewise `paper`.
        about: the docstring of its class, likewise.
        paper: where it comes from.
        ours: it is no paper's own: it goes beyond one, or is new here.
        needs: what it must know at least.
        best: the ranked entry with the largest lead, None if nothing beats its null control.
        pictured: the leading entry of those with pictures, None if none has any.
        beaten: number of networks on which it beats its strictest null control.
        missed: a row of each other network, without networks on which attacks met different weights.
        papers: for each number of a paper, ours from the best row on the victim, and the paper's.
    """

    name: str
    summary: str
    about: str
    paper: str
    ours: bool
    needs: tuple[str, ...]
    best: Entry | None
    pictured: Entry | None
    beaten: int
    missed: tuple[Row, ...]
    papers: tuple[tuple[str, Published], ...]


def profiles(report: Report) -> list[Profile]:
    """Return the profile of each attack that was run, by name; null controls have none."""
    board = pd.DataFrame([entry.row for entry in report.entries.values() if not entry.control])
    if board.empty:
        return []
    unjudged = conflicts(board)
    grouped: dict[str, list[Row]] = {}
    for row in once(board).to_dict("records"):
        grouped.setdefault(str(row["attack"]), []).append(row)
    known = known_attacks()
    found = []
    for name, rows in sorted(grouped.items()):
        kind = known.get(name)
        entries = [report.entries[cell_of(row)] for row in sorted(rows, key=_led, reverse=True)]
        beaten = {network(row) for row in rows if row["rank"]}
        missed = {network(row): row for row in reversed(rows) if network(row) not in beaten}
        judged = {name: row for name, row in missed.items() if definition(row) not in unjudged}
        found.append(
            Profile(
                name=name,
                summary=kind.summary if kind is not None else "",
                about=" ".join((inspect.getdoc(kind) or "").replace("`", "").split()) if kind is not None else "",
                paper=kind.paper if kind is not None else "",
                ours=kind is not None and ("new here" in kind.paper or kind.paper.startswith(OURS)),
                needs=tuple(sorted(kind.needs)) if kind is not None else (),
                best=next((entry for entry in entries if entry.row["rank"]), None),
                pictured=next((entry for entry in entries if entry.files.examples is not None), None),
                beaten=len(beaten),
                missed=tuple(judged[name] for name in sorted(judged)),
                papers=tuple({paper: (ours, paper) for row in reversed(rows) for ours, paper in beside(row)}.values()),
            )
        )
    return found


def _led(row: Row) -> tuple[float, float]:
    gain = gain_share(row)
    return lead(row), -math.inf if math.isnan(gain) else gain


def recipe(victim: str) -> dict[str, str]:
    """Return how a victim is described today: network, loss and training; nothing for one that is not known here."""
    spec = known_victim(victim)
    if spec is None:
        return {}
    parts = {
        "network": getattr(spec, "architecture", None),
        "loss": getattr(spec, "loss", ""),
        "training": spec.training,
    }
    told = {name: _described(part) for name, part in parts.items() if part}
    return told | ({"defended by": ", ".join(one.text for one in spec.defences)} if spec.defences else {})


def reported_accuracy(victim: str) -> float | None:
    """Return the test accuracy that a victim's paper reports, None where it reports none."""
    reported: float | None = getattr(known_victims().items.get(victim), "reported_test_accuracy", None)
    return reported


def _described(part: object) -> str:
    """Return a part of a description in words, without what it leaves empty."""
    if not isinstance(part, BaseModel):
        return str(part)
    values = part.model_dump(mode="json", exclude_none=True)
    words = [str(values.pop("kind", ""))]
    return ", ".join(filter(None, [*words, *(f"{name.replace('_', ' ')} {value}" for name, value in values.items())]))


@dataclass(frozen=True)
class Named:
    """A network: the place where it is described, and its name, with its definition where several share the name."""

    anchor: str
    name: str
    family: str


def definition(row: Row) -> tuple[str, str]:
    """Return the victim of a row and the key of its definition."""
    return str(row["victim"]), str(row["victim_key"])


def networks_of(report: Report) -> dict[tuple[str, str], Named]:
    """Return the networks by their definition: the family that gives most away first, in each by name."""
    rows = [entry.row for entry in report.entries.values()]
    definitions, families = definitions_of(rows), families_of(rows)
    places = {best.family: place for place, best in enumerate(best_of_families(rows, families))}
    ordered = sorted(definitions, key=lambda one: (places[families[one[0]]], _natural(one[0]), one[1]))
    return {
        one: Named(f"victim-{place}", ", ".join(filter(None, (one[0], definitions[one]))), families[one[0]])
        for place, one in enumerate(ordered, start=1)
    }


def _natural(name: str) -> list[str | int]:
    """Return what sorts names as people do: cifar-mlp-50 before cifar-mlp-100."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"(\d+)", name))]
