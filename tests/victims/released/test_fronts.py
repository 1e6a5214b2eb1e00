"""A module's last fully connected layers are told from its front, whatever that is, and nothing else is taken so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from victims.equations.architectures import FrontNetwork
from victims.released.fronts import front_network_of, front_spec_of
from victims.released.kinds import folded_normalisations
from victims.released.recognition import NotCoveredError

SHAPE = (3, 12, 12)


class LeNet(nn.Module):
    """As people write it: functions between the layers, the shape taken from the input."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv2d(3, 4, 3, padding=1, stride=2), nn.MaxPool2d(2)
        self.fc1, self.fc2, self.fc3 = nn.Linear(36, 9), nn.Linear(9, 7), nn.Linear(7, 5)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.pool(F.relu(self.conv(inputs)))
        hidden = hidden.view(hidden.size(0), -1)
        hidden = F.dropout(F.relu(self.fc1(hidden)), 0.5, self.training)
        outputs: Tensor = self.fc3(F.relu(self.fc2(hidden)))
        return outputs


class Residual(nn.Module):
    """A block with a skip connection and another activation, and one output."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.GELU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(432, 6), nn.ReLU(), nn.Linear(6, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(inputs + self.block(inputs))
        return outputs


class GELUNet(nn.Module):
    """Convolutions and a residual block behind a hidden layer, with another activation everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc1, self.fc2, self.fc3 = nn.Conv2d(3, 2, 3), nn.Linear(50, 9), nn.Linear(9, 9), nn.Linear(9, 5)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = F.gelu(self.fc1(F.max_pool2d(F.gelu(self.conv(inputs)), 2).reshape(inputs.shape[0], -1)))
        outputs: Tensor = self.fc3(hidden + F.gelu(self.fc2(hidden)))
        return outputs


class Tokens(nn.Module):
    """Layers that see a column of pixels each, and then one that sees all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.each, self.head, self.last = nn.Linear(12, 4), nn.Linear(144, 7), nn.Linear(7, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.last(torch.tanh(self.head(torch.tanh(self.each(inputs)).flatten(1))))
        return outputs


class Bypass(nn.Module):
    """Its last layer sees the features, too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc1, self.fc2 = nn.Conv2d(3, 2, 3, stride=3), nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        features = torch.relu(self.conv(inputs)).flatten(1)
        outputs: Tensor = self.fc2(features + torch.relu(self.fc1(features)))
        return outputs


def rows() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(432, 8), nn.Tanh(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 2))


def normalised() -> nn.Module:
    """Return a CNN with a normalisation in its front, which stays, and one behind a layer, which is folded."""
    front = nn.Sequential(nn.Conv2d(3, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2))
    network = nn.Sequential(
        front, nn.Flatten(), nn.Linear(72, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(), nn.Linear(6, 2)
    )
    for norm in (front[1], network[3]):
        for value in (norm.weight.data, norm.bias.data, norm.running_mean, norm.running_var):
            value.copy_(torch.rand(len(value)) + 0.5)
    return network


TAKEN: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], tuple[int, ...]]] = {
    "a LeNet": (LeNet, (4, 3, 3), (9, 7, 5)),
    "a residual block": (Residual, (3, 12, 12), (6, 1)),
    "layers with another activation": (rows, (8,), (6, 2)),
    "a normalisation behind a layer": (normalised, (2, 6, 6), (6, 2)),
}
TAILED: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str]] = {
    "another activation": (GELUNet, (2, 5, 5), "Net front-9-tail-5"),
    "layers that do not see all of an input": (Tokens, (3, 12, 4), "Net front-7-tail-2"),
    "a normalisation behind the ReLU": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 2, 12), nn.ReLU(), nn.Flatten(), nn.Linear(2, 6), nn.ReLU(), nn.BatchNorm1d(6), nn.Linear(6, 1)
        ),
        (2, 1, 1),
        "Net front-6-tail-1",
    ),
}
OTHER = {
    "one layer": lambda: nn.Sequential(nn.Conv2d(3, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(50, 4)),
    "one layer and a softmax": lambda: nn.Sequential(
        nn.Conv2d(3, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(50, 4), nn.LogSoftmax(1)
    ),
    "a normalisation before the layers": lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(432), nn.Linear(432, 2)),
    "a bypass": Bypass,
}


def drawn(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make().eval()


def recognised(make: Callable[[], nn.Module], maps: tuple[int, ...]) -> tuple[FrontNetwork, int]:
    """Return a module's front network, which computes the same and whose front makes such maps, and C."""
    module, inputs = drawn(make), torch.rand(5, *SHAPE)
    found, outputs = front_network_of(module, SHAPE), module(inputs)
    torch.testing.assert_close(found(inputs), outputs[:, 0] if outputs.shape[1] == 1 else outputs)
    assert tuple(found.front(inputs).shape[1:]) == maps
    return found, outputs.shape[1]


@pytest.mark.parametrize(("make", "maps", "widths"), TAKEN.values(), ids=TAKEN)
def test_front_and_layers_compute_what_the_module_does(
    make: Callable[[], nn.Module], maps: tuple[int, ...], widths: tuple[int, ...]
) -> None:
    found, outputs = recognised(make, maps)
    spec = front_spec_of(found, "Net", outputs, "pooling")
    assert (*spec.hidden, spec.outputs) == widths
    assert (spec.uncovered, spec.tailed) == ("pooling", False)


@pytest.mark.parametrize(("make", "maps", "label"), TAILED.values(), ids=TAILED)
def test_front_a_layer_and_its_tail_compute_what_the_module_does(
    make: Callable[[], nn.Module], maps: tuple[int, ...], label: str
) -> None:
    found, outputs = recognised(make, maps)
    assert len(found.layers) == 1
    assert front_spec_of(found, "Net", outputs, "").label == label


@pytest.mark.parametrize("make", OTHER.values(), ids=OTHER)
def test_a_module_that_ends_otherwise_is_not_taken(make: Callable[[], nn.Module]) -> None:
    with pytest.raises(NotCoveredError, match="no fully connected layer that all features pass"):
        front_network_of(drawn(make), SHAPE)


def test_which_normalisations_are_folded() -> None:
    network = drawn(normalised)
    assert folded_normalisations(network, SHAPE) == {network.get_submodule("3")}
    plain = nn.Sequential(nn.Flatten(), nn.Linear(432, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2)).eval()
    assert folded_normalisations(plain, SHAPE) == {plain[2]}
    assert folded_normalisations(drawn(Bypass), SHAPE) == set()


def test_the_parameters_are_the_modules_own_and_their_names_tell_front_from_layers() -> None:
    module = LeNet().eval()
    found = front_network_of(module, SHAPE)
    assert set(found.state_dict()) == {
        *(f"front.conv.{kind}" for kind in ("weight", "bias")),
        *(f"layers.{layer}.{kind}" for layer in range(3) for kind in ("weight", "bias")),
    }
    assert found.state_dict()["front.conv.weight"].data_ptr() == module.conv.weight.data_ptr()
    assert found.layers[0].weight is module.fc1.weight
    other = {name: value + 1 for name, value in found.state_dict().items()}
    found.load_state_dict(other)
    assert torch.equal(module.fc3.bias, other["layers.2.bias"])
