"""The contract of a study: a set of runs that together answer a question. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Cell:
    """One run of a study.

    Attributes:
        labels: names and values that distinguish it from the study's other cells; columns of the study's table, beside
            `attack` and `victim`.
        attack: name of the attack.
        victim: name of the victim.
        params: parameters that differ from the attack's defaults.
    """

    labels: dict[str, str | float]
    attack: str
    victim: str
    params: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a label that would stand in the place of another column; raises ValueError."""
        for taken in {"attack", "victim"} & self.labels.keys():
            raise ValueError(f"call the label {taken!r} of a study's cell otherwise: each table has such a column")


@dataclass(frozen=True)
class Plot:
    """A picture of a study's table.

    Attributes:
        kind: "map" has one heat map an attack and value, over the labels `x` and `y`; "curve" draws values over the
            label `x`, one line an attack and label `y`; "dots" has a line for each cell, named by its labels `x` and
            `y`, and on it a dot for each value; "scatter" has one panel a cell, named by the label `x`, in which every
            training image has a point: its SSIM over its margin; "cdf" has one panel a cell, named by the label `x`,
            with the distribution over its records of each value, a column of per_sample.csv; "tradeoff" draws the first
            of the values over the column `x`, the first cell as a star, those of each `y` as points with a marker of
            their own, named by their label `strength`, and the other values as small crosses; "bounded" has a panel for
            each `y`, in which the first of the values is drawn over `x` with its interval, a line for each attack and
            label `sees`, and the other values, which are the same for all attacks, once.
        x: label of the columns.
        y: label of the rows or lines; empty for one line an attack.
        values: columns of the study's table that are drawn; a share that the table lacks is told by its count and n.
        logarithmic: whether the scale of the values, and for a curve also of `x`, is logarithmic.
    """

    kind: Literal["map", "curve", "dots", "scatter", "cdf", "tradeoff", "bounded"]
    x: str
    y: str = ""
    values: tuple[str, ...] = ("n_good", "null_n_good")
    logarithmic: bool = False


@dataclass(frozen=True)
class Study:
    """Runs to be read together, found by the registry in `attacks/studies/` as `STUDIES`, a tuple of them.

    Attributes:
        name: as on the command line.
        summary: one line.
        paper: the figure or table that it repeats.
        cells: the runs.
        smoke: few and cheap cells, to see that it works.
        plots: how its table is drawn.
    """

    name: str
    summary: str
    paper: str
    cells: tuple[Cell, ...]
    smoke: tuple[Cell, ...]
    plots: tuple[Plot, ...] = ()
