"""A module's first fully connected layer is told from its tail, whatever that is, and nothing else is taken so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from victims.networks import FrontSpec, MLPSpec, ModuleSpec, TailSpec
from victims.released.kinds import folded_normalisations
from victims.released.module import built_architecture
from victims.released.recognition import NotCoveredError
from victims.released.tails import tail_network_of, tail_spec_of

SHAPE = (3, 4, 4)


class Residual(nn.Module):
    """Blocks with a skip connection and layer normalisation; sizes of the batch are asked for on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(48, 20), nn.LayerNorm(20)
        self.inner, self.last = nn.Linear(20, 20), nn.Linear(20, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs.view(inputs.size(0), -1))
        hidden = hidden + self.inner(F.gelu(self.norm(hidden)))
        hidden = F.dropout(hidden.reshape(inputs.shape[0], 20), 0.1, self.training)
        outputs: Tensor = self.last(hidden)
        return outputs


class Sized(nn.Module):
    """It asks for a size of its input before the first layer, and uses it behind."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place, self.first, self.last = place, nn.Linear(48, 9), nn.Linear(9, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        size = inputs.size(self.place)
        outputs: Tensor = self.last(torch.tanh(self.first(inputs.flatten(1))).reshape(-1, size * 9 // size))
        return outputs.view(size, -1) if self.place == 0 else outputs + size


class Bypass(nn.Module):
    """Its last layer sees the input, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.past, self.last = nn.Linear(48, 20), nn.Linear(48, 3), nn.Linear(20, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        rows = inputs.flatten(1)
        outputs: Tensor = self.last(torch.tanh(self.first(rows))) + self.past(rows)
        return outputs


def row(*behind: nn.Module) -> Callable[[], nn.Sequential]:
    return lambda: nn.Sequential(nn.Flatten(), nn.Linear(48, 9), *behind)


TAKEN: dict[str, tuple[Callable[[], nn.Module], int, int]] = {
    "residual blocks": (Residual, 20, 3),
    "the size of the batch": (lambda: Sized(0), 9, 3),
    "one output": (row(nn.SiLU(), nn.Linear(9, 1)), 9, 1),
    "batch normalisation": (row(nn.BatchNorm1d(9), nn.Tanh(), nn.Linear(9, 2)), 9, 2),
    "layers with ReLUs further on": (row(nn.GELU(), nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 2)), 9, 2),
}
OTHER: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "a convolution": (lambda: nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(8, 2)), "Conv2d stands before"),
    "a normalisation": (
        lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(48), nn.Linear(48, 2)),
        "BatchNorm1d stands",
    ),
    "an activation": (lambda: nn.Sequential(nn.Flatten(), nn.Tanh(), nn.Linear(48, 2)), "Tanh"),
    "a bypass": (Bypass, "2 operations"),
    "another size": (lambda: Sized(1), "do not compute what it computes"),
    "a size that is not there": (lambda: Sized(3), "asks for the input's shape"),
}


def drawn(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    module = make().eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d):
            for value in (part.weight.data, part.bias.data, part.running_mean, part.running_var):
                assert value is not None
                value.copy_(torch.rand(len(value)) + 0.5)
    return module


@pytest.mark.parametrize(("make", "width", "outputs"), TAKEN.values(), ids=TAKEN)
def test_first_layer_and_tail_compute_what_the_module_does(
    make: Callable[[], nn.Module], width: int, outputs: int
) -> None:
    module, inputs = drawn(make), torch.rand(5, *SHAPE)
    found, expected = tail_network_of(module, SHAPE), module(inputs)
    torch.testing.assert_close(found(inputs), expected[:, 0] if outputs == 1 else expected)
    assert tail_spec_of(found, "Net", outputs, "GELU") == TailSpec(
        name="Net", hidden=(width,), outputs=outputs, uncovered="GELU"
    )
    architecture = built_architecture("mine", make, SHAPE)
    assert (architecture.kind, architecture.label) == ("tail", f"{type(module).__name__} {width}-tail-{outputs}")
    assert folded_normalisations(module, SHAPE) == set()  # the first layer is as it was trained


@pytest.mark.parametrize(("make", "reason"), OTHER.values(), ids=OTHER)
def test_a_module_that_begins_otherwise_is_not_taken(make: Callable[[], nn.Module], reason: str) -> None:
    with pytest.raises(NotCoveredError, match=reason):
        tail_network_of(drawn(make), SHAPE)


def test_the_parameters_are_the_modules_own() -> None:
    module = Residual().eval()
    found = tail_network_of(module, SHAPE)
    tail = {f"tail.{name}.{kind}" for name in ("norm", "inner", "last") for kind in ("weight", "bias")}
    assert set(found.state_dict()) == {"layers.0.weight", "layers.0.bias"} | tail
    assert found.layers[0].weight is module.first.weight
    other = {name: value + 1 for name, value in found.state_dict().items()}
    found.load_state_dict(other)
    assert torch.equal(module.inner.bias, other["tail.inner.bias"])


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (row(nn.ReLU(), nn.Linear(9, 2)), MLPSpec),
        (row(nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 2)), MLPSpec),
        (lambda: nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), *row(nn.ReLU(), nn.Linear(9, 2))()), FrontSpec),
        (Bypass, ModuleSpec),
    ],
)
def test_what_is_recognised_otherwise_stays_so(make: Callable[[], Any], kind: type) -> None:
    assert isinstance(built_architecture("mine", make, SHAPE), kind)
