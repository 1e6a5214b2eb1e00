"""What a trained victim says of itself."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binomtest

from victims.base import UNLEARNT, Victim


@pytest.mark.parametrize("counts", [(20, 20), (9, 7, 4), (1, 1)])
def test_an_accuracy_that_chance_reaches_is_called_unlearnt(counts: tuple[int, ...]) -> None:
    labels = np.repeat(np.arange(len(counts)), counts)
    n, largest = len(labels), max(counts) / len(labels)
    for right in range(n):
        told = SimpleNamespace(
            split=SimpleNamespace(labels=labels),
            card=SimpleNamespace(train_accuracy=right / n),
            spec=SimpleNamespace(loss="cross-entropy"),
        )
        by_chance = binomtest(right, n, largest, alternative="greater").pvalue
        assert bool(Victim.unlearnt.fget(told)) == (by_chance >= UNLEARNT)  # type: ignore[attr-defined]
