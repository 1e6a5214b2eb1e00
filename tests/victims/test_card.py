"""The card of a network with many images: measured in batches, and without what takes a matrix of all pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from victims import card
from victims.cache import origin
from victims.card import VictimCard, describe
from victims.datasets import Split
from victims.equations import optimality
from victims.equations.architectures import MLP
from victims.spec import MLPSpec, VictimSpec

N = 7


class Recording(MLP):
    """A network that notes how many images it is given at a time."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.given = [*getattr(self, "given", []), len(inputs)]
        outputs: torch.Tensor = super().forward(inputs)
        return outputs


def described() -> tuple[VictimCard, list[int]]:
    torch.manual_seed(0)
    draw = np.random.default_rng(0)
    inputs = draw.standard_normal((N, 1, 2, 3)).astype(np.float32)
    none = inputs[:0], np.arange(0)
    model = Recording((6, 5, 3), [True, True])
    mean = np.zeros((1, 2, 3), np.float32)
    split = Split(inputs, np.arange(N) % 3, np.arange(N), mean, test_inputs=none[0], test_labels=none[1])
    spec = VictimSpec(name="tiny", dataset="digits", n=N, architecture=MLPSpec(hidden=(5,), outputs=3))
    made = origin("", "", torch.device("cpu"), train_s=0.0)
    return describe(spec, model, split, made), model.given


def test_images_go_through_the_network_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, given = described()
    assert given[0] == N
    monkeypatch.setattr(card, "VALUES_PER_BATCH", 3 * 6)
    parted, given = described()
    assert given[:3] == [3, 3, 1]
    assert parted.train_loss == pytest.approx(whole.train_loss, rel=1e-6)
    assert parted.margins == pytest.approx(whole.margins, rel=1e-5)
    monkeypatch.setattr(card, "VALUES_PER_BATCH", 1)
    assert described()[1][:N] == [1] * N


def test_of_many_images_no_residual_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert np.isfinite(described()[0].stationarity_residual).all()
    monkeypatch.setattr(optimality, "MOST_SAMPLES", N - 1)
    found = described()[0].stationarity_residual
    assert len(found) == 2 and np.isnan(found).all()
