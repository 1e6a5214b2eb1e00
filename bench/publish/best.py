"""The best attack on each kind of network, of the rows of a leaderboard."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from attacks.base import Knowledge, Threat, threat_of
from bench.plan.family import family
from bench.publish.numbers import number
from bench.publish.parameters import known_attacks, known_victims
from bench.publish.ranking import Row
from bench.store.records import ALIGNED_NULLS, NULLS, TWINS

OTHER = "other"
"""The family of a victim that is not known here, in a table that does not tell it."""
KNOWN = frozenset(Knowledge)
DIGITS = 6
"""Digits shown of the key of a victim's definition, where one name has several."""


@dataclass(frozen=True)
class Best:
    """What is known of a kind of network.

    Attributes:
        family: the kind, in words.
        rows: for each attacker, the one with least at hand first, the ranked row with the largest `standing`; empty if
            no attack has a rank.
        by: for each attacker who tried, likewise, on how many victims their attacks have a rank, and how many they
            attacked.
        beaten: number of victims of which an attack has a rank, whatever definitions they had.
        tried: number of victims that were attacked.
        twins: number of `beaten` where a ranked row has a null control that attacks a twin of the network.
        twins_lead: number of `twins` where such a control gets more than each of the row's others.
    """

    family: str
    rows: dict[Threat | None, Row]
    by: dict[Threat | None, tuple[int, int]]
    beaten: int
    tried: int
    twins: int
    twins_lead: int

    @property
    def lead(self) -> float:
        """The largest `lead` of the rows, -1 without rows."""
        return max(map(lead, self.rows.values()), default=-1.0)


def once(board: pd.DataFrame) -> pd.DataFrame:
    """Return a leaderboard with one row of those that differ only in their protocol and have the same gain."""
    cell = ["attack", "variant", "params_hash", "budget", "victim", "victim_key", "metric_suite"]
    return board.drop_duplicates([*cell, "gain"])


def network(row: Mapping[Any, Any]) -> str:
    """Return the key of the network of a row or a board: victim, definition, n and metric suite."""
    return f"{row['victim']} {row['victim_key']} {row['n']} {row['metric_suite']}"


def definitions_of(rows: Iterable[Mapping[Any, Any]]) -> dict[tuple[str, str], str]:
    """Return the suffix that tells definitions of one victim name apart, "" if there is one.

    Returns:
        By victim and victim_key.
    """
    keys: dict[str, set[str]] = {}
    for row in rows:
        keys.setdefault(str(row["victim"]), set()).add(str(row["victim_key"]))
    return {
        (victim, key): (f"definition {key[:DIGITS]}" if key else "definition not stored") if len(found) > 1 else ""
        for victim, found in keys.items()
        for key in found
    }


def families_of(rows: Iterable[Row]) -> dict[str, str]:
    """Return the family of each victim: as a row tells it, else by today's victim of the name, else `OTHER`."""
    told: dict[str, str] = {}
    for row in rows:
        told[str(row["victim"])] = str(row["family"]) or told.get(str(row["victim"]), "")
    victims = known_victims().items
    return {name: one or (family(victims[name]) if name in victims else OTHER) for name, one in told.items()}


def lead(row: Row) -> float:
    """Return the lower end of the gain's interval as a share of the images; -1 for a row without a rank."""
    return number(row, "gain_low") / number(row, "n") if row["rank"] else -1.0


def standing(row: Row) -> tuple[bool, bool, float]:
    """Return what puts a row before another of its kind: a rank; several trainings, for one may be lucky; its share.

    The share is the lower end of the gain's interval, of the images.
    """
    return bool(row["rank"]), number(row, "trainings") > 1, number(row, "gain_low") / number(row, "n")


def has_twin(row: Mapping[Any, Any]) -> bool:
    """Return whether the null controls of a row attack a twin of the network: an untrained one, or of other images."""
    return not all(math.isnan(number(row, name)) for name in TWINS)


def twin_leads(row: Mapping[Any, Any]) -> bool:
    """Return whether a null control that attacks a twin of the network gets more than each of the row's others."""
    got = {name: number(row, name) for name in NULLS | ALIGNED_NULLS}
    most = {twin: [n for name, n in got.items() if (name in TWINS) == twin and n >= 0] for twin in (True, False)}
    return max(most[True], default=-1) > max(most[False], default=math.inf)


def attacker(row: Mapping[Any, Any]) -> Threat | None:
    """Return who can mount a row's attack with its parameters; None for controls and oracles."""
    kind = known_attacks().get(str(row["attack"]))
    if kind is not None:
        try:
            return kind(kind.Params.model_validate_json(str(row["params_json"]))).threat
        except Exception:  # a row of a version whose parameters were others, or a plug-in's own `knowledge`
            pass
    return threat_of(frozenset(Knowledge(item) for item in str(row["knowledge"]).split("+") if item in KNOWN))


def given_away(found: Iterable[Best]) -> str:
    """Return how many models give records away, and that this does not show the others to be safe."""
    kinds = list(found)
    tried, beaten = sum(one.tried for one in kinds), sum(one.beaten for one in kinds)
    rest = tried - beaten
    away = "training records away to an attack that surely beats its null controls"
    unsure = f"which does not show that {'it is' if rest == 1 else 'they are'} safe"
    if tried == 1:
        nothing = f"Of the one model attacked, no attack surely got more than its null controls, {unsure}."
        return f"The one model attacked gives {away}." if beaten else nothing
    if not beaten:
        return f"None of the {tried} models attacked gives {away}, {unsure}."
    if not rest:
        return f"All {tried} models attacked give {away}."
    give, others = ("gives" if beaten == 1 else "give"), ("one" if rest == 1 else rest)
    return f"Of {tried} models attacked, {beaten} {give} {away}; on the other {others} none does, {unsure}."


def best_of_attackers(rows: Iterable[Row]) -> dict[Threat | None, Row]:
    """Return for each attacker, the one with least at hand first, the ranked row with the largest `standing`."""
    found: dict[Threat | None, Row] = {}
    for row in rows:
        if row["rank"]:
            threat = attacker(row)
            found[threat] = max(found.get(threat, row), row, key=standing)
    return {threat: found[threat] for threat in (*Threat, None) if threat in found}


def _by_attackers(rows: Iterable[Row]) -> dict[Threat | None, tuple[int, int]]:
    """Return for each attacker, null controls aside, on how many victims they have a rank, and how many they attacked.

    The one with least at hand comes first.
    """
    tried: dict[Threat | None, set[str]] = {}
    beaten: dict[Threat | None, set[str]] = {}
    for row in rows:
        if not row["control"]:
            threat, victim = attacker(row), str(row["victim"])
            tried.setdefault(threat, set()).add(victim)
            beaten.setdefault(threat, set()).update({victim} if row["rank"] else ())
    return {threat: (len(beaten[threat]), len(tried[threat])) for threat in (*Threat, None) if threat in tried}


def best_of_families(rows: Iterable[Row], families: Mapping[str, str]) -> list[Best]:
    """Return the best attacks on each family, the family with the largest lead first.

    Args:
        rows: of a leaderboard, each once.
        families: of each victim.
    """
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(families[str(row["victim"])], []).append(row)
    found = [
        Best(
            family=kind,
            rows=best_of_attackers(members),
            by=_by_attackers(members),
            beaten=len({row["victim"] for row in members if row["rank"]}),
            tried=len({row["victim"] for row in members}),
            twins=len({row["victim"] for row in members if row["rank"] and has_twin(row)}),
            twins_lead=len({row["victim"] for row in members if row["rank"] and twin_leads(row)}),
        )
        for kind, members in sorted(grouped.items())
    ]
    return sorted(found, key=lambda one: one.lead, reverse=True)
