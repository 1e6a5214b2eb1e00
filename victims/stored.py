"""Trained weights and their card on disk: the check that both are whole, and where they were trained."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar

from pydantic import BaseModel, ValidationError

from victims.files import set_aside, sha256_file
from victims.hardware import cpu_name, gpu_name

if TYPE_CHECKING:
    import torch

WEIGHTS, CARD = "weights.safetensors", "card.json"
"""The two files of a folder of the cache."""


class StoredCard(BaseModel):
    """A card of weights that are stored beside it, with their hex SHA-256."""

    weights_sha256: str


CardT = TypeVar("CardT", bound=StoredCard)


class Training(TypedDict):
    """The part of a card that says where and when weights were trained."""

    device: str
    hardware: str
    torch: str
    created_utc: str


def trained_on(device: torch.device) -> Training:
    """Return where and when a training was made that ends now, on `device`."""
    import torch

    return Training(
        device=device.type,
        hardware=gpu_name(device) or cpu_name(),
        torch=torch.__version__,
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def whole_card(
    kind: type[CardT], folder: Path, what: str, damaged: Path, notice: Callable[[str], None]
) -> CardT | None:
    """Return the card of weights that match their hash, None if there are none.

    Args:
        kind: the class of the card.
        folder: the folder of card and weights.
        what: the name of their owner, for the user.
        damaged: the folder into which both are moved if they do not match.
        notice: called with one line if they do not match.
    """
    card_file, weights_file = folder / CARD, folder / WEIGHTS
    if not card_file.exists():
        return None
    try:
        card = kind.model_validate_json(card_file.read_text())
    except (ValidationError, UnicodeDecodeError):
        card = None
    if card is not None and weights_file.exists() and sha256_file(weights_file) == card.weights_sha256:
        return card
    aside = [set_aside(path, damaged).name for path in (card_file, weights_file) if path.exists()]
    notice(
        f"{what}: the cached files in {folder} do not match their hash; training it again "
        f"({', '.join(aside)} set aside in {damaged})"
    )
    return None
