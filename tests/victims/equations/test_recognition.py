"""ReLU networks are recognised in a user's torch modules, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from victims.equations.recognition import architecture_of, relu_network_of
from victims.spec import ConvSpec, MLPSpec

SHAPE = (1, 25, 25)


def two_layers() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(625, 12), nn.ReLU(), nn.Linear(12, 1))


RECOGNISED = {
    "two layers": (two_layers, MLPSpec(hidden=(12,), biases="all", first_layer_scale=None)),
    "affine": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(625, 3)),
        MLPSpec(hidden=(), outputs=3, first_layer_scale=None),
    ),
    "homogeneous": (
        lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(625, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 5, bias=False), nn.ReLU(),
            nn.Identity(), nn.Linear(5, 4, bias=False),
        ),
        MLPSpec(hidden=(8, 5), outputs=4, first_layer_scale=None),
    ),
    "nested": (
        lambda: nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(625, 8)), nn.ReLU(), nn.Linear(8, 1)),
        MLPSpec(hidden=(8,), biases="all", first_layer_scale=None),
    ),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 23 * 23, 2)),
        ConvSpec(channels=2, hidden=(), outputs=2, biases="all", first_layer_scale=None),
    ),
}  # fmt: skip
OTHER = {
    "padding": lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(1250, 2)),
    "stride": lambda: nn.Sequential(nn.Conv2d(1, 2, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(288, 2)),
    "another nonlinearity": lambda: nn.Sequential(nn.Flatten(), nn.Linear(625, 8), nn.Tanh(), nn.Linear(8, 1)),
    "a normalisation": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(625, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)
    ),
    "two layers without a ReLU between": lambda: nn.Sequential(nn.Flatten(), nn.Linear(625, 8), nn.Linear(8, 1)),
    "a last ReLU": lambda: nn.Sequential(nn.Flatten(), nn.Linear(625, 1), nn.ReLU()),
    "a subclass that does something else": lambda: Doubled(nn.Flatten(), nn.Linear(625, 1)),
}


class Doubled(nn.Sequential):
    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = 2 * super().forward(inputs)
        return outputs


@pytest.mark.parametrize(("network", "expected"), RECOGNISED.values(), ids=RECOGNISED)
def test_a_relu_network_is_recognised(network: Callable[[], nn.Module], expected: MLPSpec | ConvSpec) -> None:
    module, inputs = network().eval(), torch.rand(5, *SHAPE)
    found = relu_network_of(module, SHAPE)

    assert found is not None
    assert architecture_of(found) == expected
    outputs = module(inputs)
    torch.testing.assert_close(found(inputs), outputs[:, 0] if outputs.shape[1] == 1 else outputs)
    assert "layers.0.weight" in found.state_dict()


@pytest.mark.parametrize("network", OTHER.values(), ids=OTHER)
def test_no_other_network_is_taken_for_relu_network_of(network: Callable[[], nn.Module]) -> None:
    assert relu_network_of(network().eval(), SHAPE) is None
