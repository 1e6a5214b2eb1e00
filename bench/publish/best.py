"""The best attack on each kind of network, of the rows of a leaderboard."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from bench.plan import registry
from bench.plan.family import family
from bench.publish.numbers import number

Row = dict[Hashable, Any]

OTHER = "other"
"""The family of a victim that is not known here, in a table that does not tell it."""


@dataclass(frozen=True)
class Best:
    """What is known of a kind of network.

    Attributes:
        family: the kind, in words.
        row: the row with a rank that is sure of the largest share of images; None if no attack has a rank.
        beaten: networks on which an attack has a rank.
        tried: networks that were attacked.
    """

    family: str
    row: Row | None
    beaten: int
    tried: int


def once(board: pd.DataFrame) -> pd.DataFrame:
    """Return one row of those that differ in their protocol alone: the count one to one is the same under each."""
    return board.drop_duplicates(["attack", "variant", "params_hash", "budget", "victim", "victim_key", "metric_suite"])


def network(row: Mapping[Any, Any]) -> str:
    """Return what tells a network from others, of a row or a board."""
    return f"{row['victim']} {row['victim_key']} {row['n']} {row['metric_suite']}"


def families_of(rows: Iterable[Row]) -> dict[str, str]:
    """Return the family of each victim: its rows', or that of the victim which is called so here."""
    victims = registry.victims().items
    found = {}
    for row in rows:
        spec = victims.get(str(row["victim"]))
        found[str(row["victim"])] = str(row["family"]) or (family(spec) if spec is not None else OTHER)
    return found


def lead(row: Row) -> float:
    """Return the share of images that a row with a rank is surely ahead of its null by, -1 without a rank."""
    return number(row, "gain_low") / number(row, "n") if row["rank"] else -1.0


def best_of_families(rows: Iterable[Row], families: Mapping[str, str]) -> list[Best]:
    """Return the best attack on each family, by the family's name.

    Args:
        rows: of a leaderboard, each once.
        families: of each victim.
    """
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(families[str(row["victim"])], []).append(row)
    found = []
    for kind, members in sorted(grouped.items()):
        ranked = [row for row in members if row["rank"]]
        found.append(
            Best(
                family=kind,
                row=max(ranked, key=lead, default=None),
                beaten=len({network(row) for row in ranked}),
                tried=len({network(row) for row in members}),
            )
        )
    return found
