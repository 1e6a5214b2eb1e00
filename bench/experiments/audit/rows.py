"""Rows of a table beside rows, in the units of the table: reconstruction, training row, nearest held-out row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from torch import Tensor

from bench.experiments.audit.findings import hit_records
from bench.experiments.audit.model import Record
from bench.experiments.audit.scores import Scored
from bench.scoring.columns import TOLERANCE
from victims.datasets.tables import Units

TELLING = 3
"""Records on the page."""
RECONSTRUCTION, TRAINING, NEAREST = "reconstruction", "training row", "nearest held-out row"


@dataclass(frozen=True)
class Column:
    """A column of a record.

    Attributes:
        name: of the column.
        values: of the reconstruction, the training row and, if there is one, the nearest held-out row, as text.
        right: whether the reconstruction is right; False where the column does not vary.
    """

    name: str
    values: tuple[str, ...]
    right: bool


@dataclass(frozen=True)
class SideBySide:
    """A record that fell, column by column.

    Attributes:
        record: the training record.
        kinds: what the values are, from left to right.
        columns: all of its columns, those of the model's inputs in their order.
    """

    record: Record
    kinds: tuple[str, ...]
    columns: tuple[Column, ...]


def side_by_side(found: Sequence[Record], scored: Scored, units: Units) -> list[SideBySide]:
    """Return the reconstructions that say most, beside their training rows.

    Args:
        found: all records.
        scored: their rows, and what attacks made of them.
        units: of the columns.
    """
    return [_beside(record, scored, units) for record in hit_records(found, scored)[:TELLING]]


def _beside(record: Record, scored: Scored, units: Units) -> SideBySide:
    by_kind = _rows(record, scored, units)
    tolerance = TOLERANCE * scored.images.std(0, correction=0).double().numpy().ravel() * units.span
    off = np.abs(by_kind[RECONSTRUCTION] - by_kind[TRAINING])
    columns = (
        Column(name, tuple(f"{row[place]:.4g}" for row in by_kind.values()), bool(off[place] <= tolerance[place] > 0))
        for place, name in enumerate(units.columns)
    )
    return SideBySide(record, tuple(by_kind), tuple(columns))


def row_table(found: Sequence[Record], scored: Scored, units: Units) -> pd.DataFrame:
    """Return every record that fell as lines of a table: one for each kind of row, with the table's own columns."""
    lines = [
        [record.index, record.label, record.best_attack, kind, *row]
        for record in sorted(hit_records(found, scored), key=lambda record: record.index)
        for kind, row in _rows(record, scored, units).items()
    ]
    return pd.DataFrame(lines, columns=["record", "class", "attack", "row", *units.columns])


def _rows(record: Record, scored: Scored, units: Units) -> dict[str, np.ndarray]:
    """Return the rows (d,) of a record by their kind."""

    def row(image: Tensor) -> np.ndarray:
        found: np.ndarray = units.rows(image[None].numpy())[0]
        return found

    rows = {
        RECONSTRUCTION: row(scored.attacks[record.best_attack].reconstruction[record.index]),
        TRAINING: row(scored.images[record.index]),
    }
    return rows if scored.nearest is None else rows | {NEAREST: row(scored.nearest[record.index])}
