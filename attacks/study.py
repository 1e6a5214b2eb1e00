"""The contract of a study: a set of runs that together answer a question. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Cell:
    """One run of a study.

    Attributes:
        labels: what tells it from the study's other cells, a column each in the study's table.
        attack: name of the attack.
        victim: name of the victim.
        params: parameters that differ from the attack's defaults.
    """

    labels: dict[str, str | float]
    attack: str
    victim: str
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """Runs to be read together, found by the registry in `attacks/studies/` as `STUDIES`, a tuple of them.

    Attributes:
        name: as on the command line.
        summary: one line.
        paper: the figure or table that it repeats.
        cells: the runs.
        smoke: few and cheap cells, to see that it works.
        heat_map: labels of the rows and the columns of a heat map for each attack; None for no map.
    """

    name: str
    summary: str
    paper: str
    cells: tuple[Cell, ...]
    smoke: tuple[Cell, ...]
    heat_map: tuple[str, str] | None = None
