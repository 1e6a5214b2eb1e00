"""Mini-batches: every epoch is a permutation of all samples, another one each time, and the seed's."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from victims.equations.architectures import ReLUNetwork
from victims.spec import GradientDescent
from victims.training.gradient_descent import GradientDescentAlgorithm
from victims.training.state import TrainState

N = 11


class Watched(ReLUNetwork):
    """A linear network that keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(1, 1)])
        self.shown: list[int] = []

    def forward(self, inputs: Tensor) -> Tensor:
        self.shown += inputs[:, 0].int().tolist()
        return super().forward(inputs)


def epochs(seed: int, first: int = 0, last: int = 6) -> list[list[int]]:
    """Return the samples of epochs `first` to `last`, in the order in which a training from `first` on takes them."""
    model = Watched()
    state = TrainState(model, outside_norm=0.0, outside_scale=torch.ones(()))
    method = GradientDescentAlgorithm(GradientDescent(batch_size=4, epochs=last), "cross-entropy", N, seed)
    inputs, labels = torch.arange(float(N))[:, None], torch.arange(N) % 2
    for state.step in range(first * method.batches, method.steps):
        method.step(state, inputs, labels)
    return [model.shown[start : start + N] for start in range(0, len(model.shown), N)]


def test_every_epoch_is_another_permutation_of_all_samples() -> None:
    orders = epochs(seed=1)
    assert all(sorted(order) == list(range(N)) for order in orders)
    assert len({tuple(order) for order in [*orders, *epochs(seed=2)]}) == 12


def test_a_training_that_goes_on_takes_the_epochs_that_are_left() -> None:
    assert epochs(seed=1, first=4) == epochs(seed=1)[4:]


def test_the_whole_set_is_the_one_that_a_step_is_given() -> None:
    model = Watched()
    state = TrainState(model, outside_norm=0.0, outside_scale=torch.ones(()))
    method = GradientDescentAlgorithm(GradientDescent(), "cross-entropy", N, seed=0)
    sets = [torch.arange(start, start + float(N))[:, None] for start in (0, 20)]
    for inputs in sets:
        method.step(state, inputs, torch.arange(N) % 2)
    assert model.shown == torch.cat(sets)[:, 0].int().tolist()
