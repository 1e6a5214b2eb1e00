"""The first screen of the report: what comes out of which networks, by whom, at what cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from attacks.base import Knowledge, Threat
from bench.publish.best import Best, Row, best_of_attackers, best_of_families, families_of, once
from bench.publish.numbers import count, duration, number, took, whole
from bench.publish.ranking import conflicts
from bench.publish.report.collect import Entry, Report, cell_of
from bench.publish.report.figures import Gained


@dataclass(frozen=True)
class Led:
    """What the best attack of an attacker gets.

    Attributes:
        threat: what the attacker has at hand.
        attacker: the same in words.
        attack: the attack, with its variant.
        gets: training records that come back, one to one where the protocol counts so, and of how many.
        chance: those that the strictest null control gets.
        gain: the 95% interval of the difference.
        time: wall time of the attack.
        row: of the leaderboard.
    """

    threat: Threat
    attacker: str
    attack: str
    gets: str
    chance: str
    gain: str
    time: str
    row: Row


@dataclass(frozen=True)
class Answer:
    """What the report says first.

    Attributes:
        sentences: what comes out of how many networks, of which with the weights alone, and at what cost.
        led: the best attack of each attacker, the attacker with least at hand first.
        kinds: the best row of each attack on each kind of network, best first; the kind that gives most away first. A
            kind's name tells how many of its networks give something away.
        best: the entry with pictures that surely gains most records; None if none with pictures has a rank.
    """

    sentences: tuple[str, ...]
    led: list[Led]
    kinds: dict[str, list[Gained]]
    best: Entry | None


def answer(report: Report) -> Answer:
    """Return what a report says first; networks on which attacks met different weights are left out."""
    board = pd.DataFrame([entry.row for entry in report.entries.values()])
    if board.empty:
        return Answer((), [], {}, None)
    left_out = conflicts(board)
    told: list[Row] = once(board).to_dict("records")
    rows = [row for row in told if (str(row["victim"]), str(row["victim_key"])) not in left_out]
    families = families_of(rows)
    best = best_of_families(rows, families)
    led = [_led(threat, row) for threat, row in best_of_attackers(rows).items() if threat]
    kinds = {_kind(one): _gained([row for row in rows if families[str(row["victim"])] == one.family]) for one in best}
    pictured = [row for row in rows if row["rank"] and report.entries[cell_of(row)].files.examples is not None]
    top = max(pictured, key=lambda row: number(row, "gain_low"), default=None)
    return Answer(
        sentences=_sentences(best, led),
        led=led,
        kinds={kind: found for kind, found in kinds.items() if found},
        best=report.entries[cell_of(top)] if top is not None else None,
    )


def _kind(one: Best) -> str:
    """Return a kind of network, and how many of its networks give something away."""
    return f"{one.family}: {one.beaten} of {one.tried}"


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


def _sentences(best: list[Best], led: list[Led]) -> tuple[str, ...]:
    """Return what comes out, by whom and at what cost."""
    tried, beaten = sum(one.tried for one in best), sum(one.beaten for one in best)
    if not tried:
        return ("No attack is ranked: on every network attacks met different weights.",)
    if not led:
        none = "The one network attacked gives no" if tried == 1 else f"None of the {tried} networks attacked gives"
        return (f"{none} training data away: no attack beats its null control.",)
    some = "The one network attacked gives" if tried == 1 else f"{beaten} of the {tried} networks attacked give"
    least = next((one for one in led if one.threat is Threat.WEIGHTS), led[0])
    seconds = [number(one.row, "wall_s") for one in led]
    return (
        f"{some} training data away to an attack that beats chance, which is its strictest null control.",
        f"With {least.attacker}, {least.attack} gets {least.gets} training records of {least.row['victim']}, where "
        f"chance gets {least.chance}.",
        f"The best attack of each attacker took {_range(seconds)} on {_machines(led)}.",
    )


def _range(seconds: list[float]) -> str:
    """Return the shortest and the longest of durations."""
    shortest, longest = duration(min(seconds)), duration(max(seconds))
    return shortest if shortest == longest else f"{shortest} to {longest}"


def _machines(led: list[Led]) -> str:
    """Return what the attacks ran on: its GPUs, or else its processors."""
    return " and ".join(sorted({str(one.row["gpu"] or one.row["cpu"]) for one in led}))


def _led(threat: Threat, row: Row) -> Led:
    """Return what the best attack of an attacker gets; earlier weights are told where it has them."""
    on_the_way = {Knowledge.INITIAL_WEIGHTS, Knowledge.EARLIER_WEIGHTS} <= {*str(row["knowledge"]).split("+")}
    good = number(row, "n_good_unique")
    good = number(row, "n_good") if math.isnan(good) else good
    return Led(
        threat=threat,
        attacker=f"{threat}, and weights on the way" if on_the_way else str(threat),
        attack=f"{row['attack']}:{row['variant']}" if row["variant"] else str(row["attack"]),
        gets=f"{count(good)} of {row['n']}",
        chance=count(good - number(row, "gain")),
        gain=f"{whole(number(row, 'gain_low'))} to {whole(number(row, 'gain_high'))}",
        time=took(row),
        row=row,
    )
