"""The first screen of the report: what comes out of which networks, by whom, at what cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from attacks.base import Knowledge, Threat
from bench.publish.best import (
    Best,
    attacker,
    best_of_attackers,
    best_of_families,
    families_of,
    given_away,
    has_twin,
    once,
    standing,
)
from bench.publish.numbers import AT_MOST, count, number, processor, took, whole
from bench.publish.ranking import Row, cell_of, conflicts
from bench.publish.report.collect import Entry, Report
from bench.publish.report.figures.overview import Gained
from bench.terminal.text import few, variant_name

SOUGHT = (Threat.RELEASES, Threat.RECORDS)
"""The attackers who seek some records of a training and have others."""


@dataclass(frozen=True)
class Led:
    """What the best attack of an attacker gets.

    Attributes:
        threat: what the attacker has at hand.
        attacker: the same in words.
        attack: the attack, with its variant.
        gets: training records that come back, one to one where the protocol counts so, and of how many.
        chance: those that the strictest null control gets.
        twin: one of its null controls attacks a twin of the network.
        gain: the 95% interval of the difference.
        trainings: of the network, on which the attack was made.
        time: wall time of the attack.
        row: of the leaderboard.
    """

    threat: Threat
    attacker: str
    attack: str
    gets: str
    chance: str
    twin: bool
    gain: str
    trainings: int
    time: str
    row: Row


@dataclass(frozen=True)
class Answer:
    """What the report says first.

    Attributes:
        sentences: what comes out of how many models, of which with the weights alone and with the start of the
            training too, and at what cost.
        uncounted: which models of the tables are not counted, and why; "" if all are.
        led: the best attack of each attacker, the attacker with least at hand first.
        kinds: the best row of each attack on each kind of network, best first; the kind that gives most away first. A
            kind's name tells how many of its networks give something away.
        best: the entry with pictures of the largest `standing`, of those with the weights alone if there are any, so
            that the picture is of what the sentences tell; None if none with pictures has a rank.
    """

    sentences: tuple[str, ...]
    uncounted: str
    led: list[Led]
    kinds: dict[str, list[Gained]]
    best: Entry | None


def answer(report: Report) -> Answer:
    """Return what a report says first; networks on which attacks met different weights are left out."""
    board = pd.DataFrame([entry.row for entry in report.entries.values()])
    if board.empty:
        return Answer((), "", [], {}, None)
    left_out = conflicts(board)
    told: list[Row] = once(board).to_dict("records")
    rows = [row for row in told if (str(row["victim"]), str(row["victim_key"])) not in left_out]
    families = families_of(rows)
    best = best_of_families(rows, families)
    led = [_led(threat, row) for threat, row in best_of_attackers(rows).items() if threat]
    kinds = {_kind(one): _gained([row for row in rows if families[str(row["victim"])] == one.family]) for one in best}
    pictured = [row for row in rows if row["rank"] and report.entries[cell_of(row)].files.examples is not None]
    alone = [row for row in pictured if attacker(row) is Threat.WEIGHTS]
    top = max(alone or pictured, key=standing, default=None)
    return Answer(
        sentences=_sentences(best, led),
        uncounted=_uncounted(report, board, rows, {victim for victim, _ in left_out}),
        led=led,
        kinds={kind: found for kind, found in kinds.items() if found},
        best=report.entries[cell_of(top)] if top is not None else None,
    )


def _kind(one: Best) -> str:
    """Return a kind of network, and how many of its networks give something away."""
    return f"{one.family}: {one.beaten} of {one.tried}"


def _gained(rows: list[Row]) -> list[Gained]:
    """Return the row with the largest `standing` of each attack that has null controls, the controls left out."""
    found: dict[str, Row] = {}
    for row in rows:
        name = str(row["attack"])
        if not (row["control"] or math.isnan(number(row, "gain_low"))):
            found[name] = max(found.get(name, row), row, key=standing)
    gained = []
    for name, row in found.items():
        gain, low, high = (number(row, end) / number(row, "n") for end in ("gain", "gain_low", "gain_high"))
        network, trainings = str(row["victim"]), int(row["trainings"])
        gained.append(Gained(name, gain, low, high, bool(row["rank"]), network, trainings))
    return sorted(gained, key=lambda one: one.low, reverse=True)


def _sentences(best: list[Best], led: list[Led]) -> tuple[str, ...]:
    """Return what comes out, by whom and at what cost."""
    if not any(one.tried for one in best):
        return ("No attack is ranked: on every network attacks met different weights.",)
    first = given_away(best)
    if not led:
        return (first,)
    least = next((one for one in led if one.threat is Threat.WEIGHTS), led[0])
    start = [one for one in led if one.threat is Threat.START and one is not least]
    return (
        first,
        " ".join(map(_told, [least, *start])),
        f"The best attack of each attacker took {_range(led)} on {_machines(led)}.",
    )


def _told(led: Led) -> str:
    """Return what the best attack of an attacker gets, as a sentence."""
    records = "records sought in" if led.threat in SOUGHT else "training records of"
    return (
        f"With {led.attacker}, {led.attack} gets {led.gets} {records} {led.row['victim']}, where chance gets "
        f"{led.chance} ({_trainings(led.trainings)})."
    )


def _trainings(count: int) -> str:
    """Return in words how many trainings a number is averaged over."""
    return "one training" if count == 1 else f"the mean of {count} trainings"


def _uncounted(report: Report, board: pd.DataFrame, rows: list[Row], differing: set[str]) -> str:
    """Return why the page shows more models than are counted, "" if it does not.

    Args:
        report: with all runs.
        board: one row a cell.
        rows: those that count.
        differing: models on which attacks met different weights, under one definition at least.
    """
    counted = {str(row["victim"]) for row in rows}
    apart = sorted(differing - counted)
    untouched = sorted({str(name) for name in report.runs["victim"]} - counted - {*apart})
    told = [
        f"Not counted: {few(names)}, {why}."
        for names, why in ((apart, "where attacks met different weights"), (untouched, "where no attack was made"))
        if names
    ]
    sections = len(board[["victim", "victim_key"]].drop_duplicates())
    if sections > board["victim"].nunique():
        told.append(f"A name counts once; some have several definitions, so {sections} models stand below.")
    return " ".join(told)


def _range(led: list[Led]) -> str:
    """Return the shortest and the longest time; either may be an upper bound."""
    ordered = sorted(led, key=lambda one: number(one.row, "wall_s"))
    shortest, longest = (one.time.replace(AT_MOST, "at most ") for one in (ordered[0], ordered[-1]))
    return shortest if shortest == longest else f"{shortest} to {longest}"


def _machines(led: list[Led]) -> str:
    """Return what the attacks ran on: its GPUs, or else its processors."""
    cells = (str(one.row["gpu"] or one.row["cpu"]) for one in led)
    # a leaderboard joins what the runs of a cell ran on by semicolons
    *others, last = sorted({processor(name) for cell in cells for name in cell.split(";")})
    return " and ".join(filter(None, (", ".join(others), last)))


def _led(threat: Threat, row: Row) -> Led:
    """Return what the best attack of an attacker gets; the words say so if it has earlier weights."""
    on_the_way = {Knowledge.INITIAL_WEIGHTS, Knowledge.EARLIER_WEIGHTS} <= {*str(row["knowledge"]).split("+")}
    good = number(row, "n_good_unique")
    good = number(row, "n_good") if math.isnan(good) else good
    return Led(
        threat=threat,
        attacker=f"{threat}, and weights on the way" if on_the_way else str(threat),
        attack=variant_name(row["attack"], row["variant"]),
        gets=f"{count(good)} of {row['n']}",
        chance=count(good - number(row, "gain")),
        twin=has_twin(row),
        gain=f"{whole(number(row, 'gain_low'))} to {whole(number(row, 'gain_high'))}",
        trainings=int(row["trainings"]),
        time=took(row),
        row=row,
    )
