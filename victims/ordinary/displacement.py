"""What a card tells of the way from the start of a training to what is released."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from victims.card import VictimCard
from victims.networks import DENSE_FIRST
from victims.ordinary.difference import difference, first_moved, movement

DECOMPOSED = (*DENSE_FIRST, "cnn")
"""Kinds of networks whose card tells what is left of the start, and how many directions were added to it.

Random features show a direction a class. In an owner's network behind a front, such as a VGG with 4,096 x 25,088
weights, the singular values would take minutes each time that it is loaded."""


def with_start(
    card: VictimCard, start_sha256: str | None, start: Mapping[str, Tensor], end: Mapping[str, Tensor]
) -> VictimCard:
    """Return a card with the hash of the start, and with what `training_displacement` says where it is decomposed.

    Args:
        card: of the released weights.
        start_sha256: hex SHA-256 of the file of the start.
        start: the initial state of the network.
        end: its released state.
    """
    decomposed = card.spec.architecture.kind in DECOMPOSED
    moved = training_displacement(start, end) if decomposed else {"movement": movement(start, end)}
    return card.model_copy(update={"start_sha256": start_sha256, **moved})


def training_displacement(start: Mapping[str, Tensor], end: Mapping[str, Tensor]) -> dict[str, float | int]:
    """Return what the card says of the way from the start to the end of a training: movement, start_decay, directions.

    Args:
        start: the initial state of a network, whose fully connected layers are `layers.{l}`.
        end: its released state.
    """
    length, moved = movement(start, end), first_moved(start, end)
    if moved is None:
        return {"movement": length, "start_decay": 1.0, "directions": 0}
    found = difference(end[f"layers.{moved}.weight"], start[f"layers.{moved}.weight"])
    return {"movement": length, "start_decay": found.decay, "directions": found.rank}
