"""The arrays of a user's data file, and what is told of one that is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from victims.errors import UserError


def arrays(**changes: np.ndarray) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {
        "train_images": generator.integers(0, 256, (6, 4, 5), dtype=np.uint8),
        "train_labels": np.array([0, 1, 0, 1, 1, 0]),
        "test_images": generator.integers(0, 256, (2, 4, 5), dtype=np.uint8),
        "test_labels": np.array([0, 1]),
    } | changes


def one_line(caught: pytest.ExceptionInfo[UserError]) -> str:
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message
