"""What an owner gives of the data: images, rows of a table, or nothing but their shape."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from victims.datasets.raw import RawDataset
from victims.datasets.sources import load_own
from victims.datasets.tables import Units, load_table
from victims.released.module import Shape


@dataclass(frozen=True)
class Given:
    """The data given.

    Attributes:
        raw: images, or rows (n, 1, 1, d) in their place; none where only the shape is given.
        units: the units of a table's columns, placeholders where no rows are given; None for images.
    """

    raw: RawDataset
    units: Units | None = None

    @property
    def shape(self) -> Shape:
        """(C, H, W) of an input."""
        channels, height, width = self.raw.train_images.shape[1:]
        return channels, height, width


def given(
    dataset: str, shape: Shape | None, columns: tuple[str, ...] = (), label: str = "", held_out: Path | None = None
) -> Given:
    """Return the data that an owner gives, or arrays without records if there are none.

    Args:
        dataset: path of an .npz file of images, or of a CSV file of rows; empty for none.
        shape: (C, H, W) of an input where there is no file.
        columns: the columns of a table that the model is given; empty for all but the label, or for images.
        label: the column of a table's classes; empty for images.
        held_out: a CSV file of held-out rows.

    Raises:
        UserError: a file is missing or malformed.
    """
    if dataset and label:
        return Given(*load_table(Path(dataset), label, columns, held_out))
    if dataset:
        return Given(load_own(Path(dataset)))
    assert shape is not None
    nothing, labels = np.zeros((0, *shape), np.float32), np.zeros(0, np.int64)
    units = Units.of_scale(columns, (0.0,) * len(columns), (1.0,) * len(columns)) if columns else None
    return Given(RawDataset("", nothing, labels, nothing, labels), units)
