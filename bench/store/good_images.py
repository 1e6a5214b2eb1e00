"""Which training images are good, as hex text: column `good_images` of runs.csv."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BITS = 4
"""Images a hex digit."""


def encode(good: Sequence[bool] | NDArray[np.bool_]) -> str:
    """Return (n + 3) // 4 hex digits, the first image being the highest bit of the first digit."""
    flags = np.asarray(good, dtype=bool)
    return np.packbits(flags).tobytes().hex()[: _digits(len(flags))]


def decode(text: str, n: int) -> NDArray[np.bool_]:
    """Return which of n images are good, (n,).

    Raises:
        ValueError: the text is no mask of n images.
    """
    digits = _digits(n)
    if len(text) != digits or not re.fullmatch("[0-9a-f]*", text):
        raise ValueError(f"{text!r} is not {digits} lower-case hex digits, a bit for each of {n} images")
    flags = np.unpackbits(np.frombuffer(bytes.fromhex(text + "0" * (digits % 2)), dtype=np.uint8)).astype(bool)
    if flags[n:].any():
        raise ValueError(f"{text!r} has bits for more than {n} images")
    return flags[:n]


def _digits(n: int) -> int:
    return -(-n // BITS)
