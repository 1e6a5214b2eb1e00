"""The first screen of the report: what comes out of which networks, by whom, at what cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from attacks.base import Knowledge, Threat
from bench.publish.best import Best, Row, best_of_attackers, best_of_families, families_of, once
from bench.publish.numbers import count, number, took, whole
from bench.publish.ranking import conflicts
from bench.publish.report.collect import Entry, Report, cell_of
from bench.publish.report.figures import Gained


@dataclass(frozen=True)
class Answer:
    """What the report says first.

    Attributes:
        sentences: what gives training data away, to whom and at what cost, and what does not, with the tables' numbers.
        kinds: the best row of each attack on each kind of network, best first; the kind that gives most away first.
        best: the entry with pictures that surely gains most records; None if none with pictures has a rank.
    """

    sentences: tuple[str, ...]
    kinds: dict[str, list[Gained]]
    best: Entry | None


def answer(report: Report) -> Answer:
    """Return what a report says first; networks on which attacks met different weights are left out."""
    board = pd.DataFrame([entry.row for entry in report.entries.values()])
    if board.empty:
        return Answer((), {}, None)
    left_out = conflicts(board)
    told: list[Row] = once(board).to_dict("records")
    rows = [row for row in told if (str(row["victim"]), str(row["victim_key"])) not in left_out]
    families = families_of(rows)
    best = best_of_families(rows, families)
    kinds = {one.family: _gained([row for row in rows if families[str(row["victim"])] == one.family]) for one in best}
    pictured = [row for row in rows if row["rank"] and report.entries[cell_of(row)].files.examples is not None]
    top = max(pictured, key=lambda row: number(row, "gain_low"), default=None)
    return Answer(
        sentences=_sentences(best, rows),
        kinds={kind: found for kind, found in kinds.items() if found},
        best=report.entries[cell_of(top)] if top is not None else None,
    )


def _gained(rows: list[Row]) -> list[Gained]:
    """Return the best row of each attack that has null controls, the controls left out."""
    found: dict[str, Row] = {}
    for row in rows:
        name = str(row["attack"])
        if not (row["control"] or math.isnan(number(row, "gain_low"))):
            found[name] = max(found.get(name, row), row, key=lambda one: number(one, "gain_low") / number(one, "n"))
    gained = []
    for name, row in found.items():
        gain, low, high = (number(row, end) / number(row, "n") for end in ("gain", "gain_low", "gain_high"))
        gained.append(Gained(name, gain, low, high, ranked=bool(row["rank"])))
    return sorted(gained, key=lambda one: one.low, reverse=True)


def _sentences(best: list[Best], rows: list[Row]) -> tuple[str, ...]:
    """Return what comes out, by whom and at what cost, and what gives nothing away."""
    tried = len({row["victim"] for row in rows})
    if not tried:
        return ("No attack is ranked: on every network attacks met different weights.",)
    if not any(one.rows for one in best):
        none = "The one network attacked gives no" if tried == 1 else f"None of the {tried} networks attacked gives"
        return (f"{none} training data away: no attack beats its null control.",)
    beaten = sum(one.beaten for one in best)
    some = "The one network attacked gives" if tried == 1 else f"{beaten} of the {tried} networks attacked give"
    first = f"{some} training data away to an attack that beats chance."
    kept = [f"{one.family}, {one.tried - one.beaten} of {one.tried}" for one in best if one.beaten < one.tried]
    last = f"Networks that kept their records, by kind: {'; '.join(kept)}." if kept else "No network kept its records."
    return (first, *(_led(threat, row) for threat, row in best_of_attackers(rows).items() if threat), last)


def _led(threat: Threat, row: Row) -> str:
    """Return what the best attack of an attacker gets, chance beside it; earlier weights are told where it has them."""
    attack = f"{row['attack']}:{row['variant']}" if row["variant"] else str(row["attack"])
    told = str(row["knowledge"]).split("+")
    who = (
        f"{threat}, and weights on the way"
        if {Knowledge.INITIAL_WEIGHTS, Knowledge.EARLIER_WEIGHTS} <= {*told}
        else threat
    )
    gain, low, high = (number(row, name) for name in ("gain", "gain_low", "gain_high"))
    name = "n_good" if math.isnan(number(row, "n_good_unique")) else "n_good_unique"
    return (
        f"With {who}, {attack} gets {count(number(row, name))} of {row['n']} training records of {row['victim']}, "
        f"where chance gets {count(number(row, name) - gain)} (gain, 95%: {whole(low)} to {whole(high)}; {took(row)})."
    )
