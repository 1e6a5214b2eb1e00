"""What the papers report, to stand beside what was measured here: `attacks/published.toml`."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict

from bench.plan.registry import ROOT
from bench.publish.numbers import count, number
from bench.store.records import COUNTS

FILE = "attacks/published.toml"


class Published(BaseModel):
    """A number of a paper.

    Attributes:
        attack: the attack of this suite that repeats the paper's; likewise `victim`.
        column: the column of leaderboard.csv that it stands beside.
        value: the number.
        source: where in the paper it stands, and what is not alike.
        link: to the paper; the table or section that `source` names is in it.
        params: the parameters of the rows that are most like the paper's, as leaderboard.csv writes them; None where
            it stands beside all rows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    attack: str
    victim: str
    column: str
    value: float
    source: str
    link: str
    params: str | None = None


@cache
def published() -> tuple[Published, ...]:
    """Return the numbers of the papers, none if the file is not there, as in an installation without it."""
    path = ROOT / FILE
    if not path.exists():
        return ()
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["published"]
    return tuple(Published.model_validate(entry) for entry in entries)


def beside(row: Mapping[Hashable, Any]) -> list[tuple[str, Published]]:
    """Return what papers report of a row's attack and victim: our number as text, a count with its null, and theirs."""
    return [
        (_written(row, entry.column), entry)
        for entry in published()
        if (entry.attack, entry.victim) == (row["attack"], row["victim"])
        and entry.params in (None, row["params"])
        and number(row, entry.column) >= 0
    ]


def _written(row: Mapping[Hashable, Any], column: str) -> str:
    if column not in COUNTS:
        return f"{number(row, column):.3g}"
    null = number(row, f"null_{column}")
    return f"{count(number(row, column))}{'' if math.isnan(null) else f' (null {count(null)})'}"
