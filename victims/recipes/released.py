"""Weights that were trained elsewhere, as a frozen description. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from victims.frozen_model import Recipe, omitted_if_default


class Released(Recipe):
    """No recipe: weights that were trained elsewhere. `victims.released.released` fills it in.

    Attributes:
        weights: file of the weights; the hash stands for it in the cache key.
        weights_sha256: its hex SHA-256.
        network: builds the module that the weights belong to.
        initial: file of the weights that its training started from, None if they are not known.
        initial_sha256: its hex SHA-256, empty without.
        state: file of the optimiser's state at the end of the training, None if it is not known.
        state_sha256: its hex SHA-256, empty without.
        earlier: file of the weights at an earlier point of the training, None if none is known.
        earlier_sha256: its hex SHA-256, empty without.
        earlier_state: file of the optimiser's state at that point, None without.
        earlier_state_sha256: its hex SHA-256, empty without.
        earlier_weights: files of the weights alone at earlier points of the training, in their order; empty without.
        earlier_weights_sha256: their hex SHA-256.
        network_sha256: hex SHA-256 of the syntax tree of the file that defines `network`.
        mean: what is subtracted from an image in [0, 1], a number a channel, or "training" for the per-pixel mean of
            the images given; of a row in the table's units, a number a column.
        std: the divisor after that, a number for each channel, or column.
        dtype: the precision in which it is attacked.
        weight_decay: the weight decay of the training, as its owner tells it; 0 for none.
        crops: the most pixels by which random crops moved an image in its training, as its owner tells; 0 for none.
        n_trained: number of images that the network was trained on.
        n_held_out: number of images given that it was not trained on.
        shape: (C, H, W) of an input where no data are given; None where the data tell it.
        columns: the columns of a table that the network is given, in order; empty for images.
        label_column: the table's column of classes.
        held_out: file of a table's held-out rows, None for none; the hash stands for it in the cache key.
        held_out_sha256: its hex SHA-256, empty without.
        class_balance: the share of each class where no data are given; empty where the data tell it, or if unknown.
    """

    kind: Literal["released"] = "released"
    weights: Path
    weights_sha256: str
    initial: Path | None = None
    initial_sha256: str = ""
    state: Annotated[Path | None, omitted_if_default(None)] = None
    state_sha256: Annotated[str, omitted_if_default("")] = ""
    earlier: Annotated[Path | None, omitted_if_default(None)] = None
    earlier_sha256: Annotated[str, omitted_if_default("")] = ""
    earlier_state: Annotated[Path | None, omitted_if_default(None)] = None
    earlier_state_sha256: Annotated[str, omitted_if_default("")] = ""
    earlier_weights: Annotated[tuple[Path, ...], omitted_if_default(())] = ()
    earlier_weights_sha256: Annotated[tuple[str, ...], omitted_if_default(())] = ()
    network: Callable[[], Any] | None = Field(default=None, exclude=True, repr=False)
    network_sha256: str
    mean: tuple[float, ...] | Literal["training"]
    std: tuple[PositiveFloat, ...]
    dtype: Literal["float32"] = "float32"
    weight_decay: NonNegativeFloat = 0.0
    crops: Annotated[NonNegativeInt, omitted_if_default(0)] = 0
    n_trained: PositiveInt
    n_held_out: int = 0
    shape: Annotated[tuple[PositiveInt, PositiveInt, PositiveInt] | None, omitted_if_default(None)] = None
    columns: Annotated[tuple[str, ...], omitted_if_default(())] = ()
    label_column: Annotated[str, omitted_if_default("")] = ""
    held_out: Annotated[Path | None, omitted_if_default(None)] = None
    held_out_sha256: Annotated[str, omitted_if_default("")] = ""
    class_balance: Annotated[tuple[NonNegativeFloat, ...], omitted_if_default(())] = ()

    @property
    def on_the_way(self) -> tuple[tuple[Path, str], ...]:
        """Files of weights at earlier points of the training, with SHA-256: those given alone, or with a state."""
        if self.earlier_weights or self.earlier is None:
            return tuple(zip(self.earlier_weights, self.earlier_weights_sha256, strict=True))
        return ((self.earlier, self.earlier_sha256),)

    @property
    def label(self) -> str:
        """Short text for tables."""
        decay = f", decay {self.weight_decay:g}" if self.weight_decay else ""
        return f"released weights{decay}"
