"""ReLU networks are recognised in a user's torch modules, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from victims.released.recognition import NotCoveredError, architecture_of, relu_network_of
from victims.spec import ConvSpec, MLPSpec

SHAPE = (1, 25, 25)


def two_layers() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(625, 12), nn.ReLU(), nn.Linear(12, 1))


RECOGNISED = {
    "two layers": (two_layers, MLPSpec(hidden=(12,), biases="every", first_layer_scale=None)),
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
        MLPSpec(hidden=(8,), biases="every", first_layer_scale=None),
    ),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 23 * 23, 2)),
        ConvSpec(channels=2, hidden=(), outputs=2, biases="all", first_layer_scale=None),
    ),
    "a batch normalisation that is folded": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(625, 8, bias=False), used(nn.BatchNorm1d(8)), nn.ReLU(),
                              nn.Linear(8, 1)),
        MLPSpec(hidden=(8,), biases="every", first_layer_scale=None),
    ),
    "a normalisation without a scale": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(625, 8), used(nn.BatchNorm1d(8, affine=False)), nn.ReLU(),
                              nn.Linear(8, 1)),
        MLPSpec(hidden=(8,), biases="every", first_layer_scale=None),
    ),
    "two convolutions": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 4, 3, bias=False), nn.ReLU(), nn.Flatten(),
                              nn.Linear(4 * 21 * 21, 2, bias=False)),
        ConvSpec(channels=(2, 4), hidden=(), outputs=2, first_layer_scale=None),
    ),
    "a folded convolution": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3, bias=False), used(nn.BatchNorm2d(2)), nn.ReLU(), nn.Flatten(),
                              nn.Linear(2 * 23 * 23, 2, bias=False)),
        ConvSpec(channels=2, hidden=(), outputs=2, first_layer_scale=None),
    ),
    "dropouts of other kinds": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(625, 8), nn.ReLU(), nn.Dropout3d(), nn.FeatureAlphaDropout(),
                              nn.Linear(8, 1)).eval(),
        MLPSpec(hidden=(8,), biases="every", first_layer_scale=None),
    ),
    "methods of tensors, and dropouts": (lambda: Methods().eval(), MLPSpec(hidden=(8,), outputs=2, biases="every",
                                                                          first_layer_scale=None)),
    "a subclass with a list": (lambda: Listed().eval(), MLPSpec(hidden=(8, 5), outputs=3, biases="every",
                                                         first_layer_scale=None)),
    "a subclass with functions": (lambda: Functional().eval(), MLPSpec(hidden=(8,), outputs=2, biases="every",
                                                               first_layer_scale=None)),
}  # fmt: skip
BRANCHES = r"a sum of two branches \(`add`, a residual connection\) is not covered; only chains of convolutions, linear"
OTHER = {
    "padding": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(1250, 2)),
        "no padding",
    ),
    "stride": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(288, 2)),
        "stride 1",
    ),
    "Tanh": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(625, 8), nn.Tanh(), nn.Linear(8, 1)), "Tanh is not covered"),
    "GELU": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(625, 8), nn.GELU(), nn.Linear(8, 1)), "GELU is not covered"),
    "a pool": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(288, 2)),
        "MaxPool2d is not covered",
    ),
    "kernels of two sizes": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 5), nn.ReLU(), nn.Flatten(),
                              nn.Linear(722, 2)),
        "kernel of one size",
    ),
    "a convolution behind a fully connected layer": (
        lambda: nn.Sequential(nn.Linear(25, 25), nn.ReLU(), nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(),
                              nn.Linear(1058, 2)),
        "Conv2d behind a fully connected layer",
    ),
    "nothing but convolutions": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 23), nn.Flatten()),
        "before linear layers",
    ),
    "a normalisation before the layer": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(625, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 1)),
        "BatchNorm1d does not follow a linear layer",
    ),
    "a normalisation of each batch": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(625, 8), nn.BatchNorm1d(8, track_running_stats=False), nn.ReLU(),
                              nn.Linear(8, 1)),
        "no running statistics",
    ),
    "two layers without a ReLU between": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(625, 8), nn.Linear(8, 1)),
        "no ReLU between",
    ),
    "layers of rows": (
        lambda: nn.Sequential(nn.Linear(25, 8), nn.ReLU(), nn.Flatten(), nn.Linear(200, 2)),
        "its layers do not follow in a row",
    ),
    "a last ReLU": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(625, 1), nn.ReLU()), "last layer is not linear"),
    "a subclass that does something else": (lambda: Doubled(nn.Flatten(), nn.Linear(625, 1)), "the operation `mul` of"),
    "a residual connection": (lambda: Residual().eval(), BRANCHES),
    "a residual connection the other way round": (lambda: Residual(turned=True).eval(), BRANCHES),
    "a cast": (lambda: Cast(None).eval(), "the operation `long` of its forward is not covered"),
    "a cast by its name": (lambda: Cast(torch.int64).eval(), "do not compute what it computes"),
    "a condition": (lambda: Conditional().eval(), "torch.fx cannot follow its forward"),
}  # fmt: skip


class Doubled(nn.Sequential):
    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = 2 * super().forward(inputs)
        return outputs


class Listed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList([nn.Linear(625, 8), nn.Linear(8, 5), nn.Linear(5, 3)])

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = inputs.view(inputs.size(0), -1)
        for step in self.steps[:-1]:
            hidden = torch.relu(step(hidden))
        outputs: Tensor = self.steps[-1](hidden)
        return outputs


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(625, 8), used(nn.BatchNorm1d(8)), nn.Linear(8, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = F.relu(self.norm(self.first(torch.flatten(inputs, 1))))
        outputs: Tensor = self.last(F.dropout(hidden, 0.5, self.training))
        return outputs


class Methods(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(625, 8), nn.Linear(8, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs.to(torch.float32).detach().flatten(1)).relu_()
        for drop in (F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout):
            hidden = drop(hidden, 0.5, self.training)
        outputs: Tensor = self.last(hidden)
        return outputs


class Cast(nn.Module):
    def __init__(self, dtype: torch.dtype | None) -> None:
        super().__init__()
        self.dtype, self.only = dtype, nn.Linear(625, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        row = inputs.flatten(1)
        outputs: Tensor = self.only((row.long() if self.dtype is None else row.to(self.dtype)).float())
        return outputs


class Residual(nn.Module):
    def __init__(self, *, turned: bool = False) -> None:
        super().__init__()
        self.turned = turned
        self.first, self.middle, self.last = nn.Linear(625, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.first(inputs.flatten(1)))
        branch = torch.relu(self.middle(hidden))
        outputs: Tensor = self.last(hidden + branch if self.turned else branch + hidden)
        return outputs


class Named(nn.Module):
    """Its outputs stand in a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.only = nn.Linear(625, 2)

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        return {"logits": self.only(inputs.flatten(1))}


class First(nn.Module):
    """Of ten outputs it answers with one."""

    def __init__(self) -> None:
        super().__init__()
        self.only = nn.Linear(625, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.only(inputs.flatten(1))
        return outputs[:, 0]


class Conditional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.only = nn.Linear(625, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.only(inputs.flatten(1))
        return outputs if outputs.sum() > 0 else -outputs


def used(norm: nn.Module) -> nn.Module:
    """A batch normalisation that has seen data, so that folding it changes the layer before."""
    generator = torch.Generator().manual_seed(0)
    for name in ("running_mean", "running_var", "weight", "bias"):
        if (value := getattr(norm, name)) is None:
            continue
        value.data.copy_(torch.rand(value.shape, generator=generator) + 0.5)
    return norm


@pytest.mark.parametrize(("network", "expected"), RECOGNISED.values(), ids=RECOGNISED)
def test_a_relu_network_is_recognised(network: Callable[[], nn.Module], expected: MLPSpec | ConvSpec) -> None:
    module, inputs = network().eval(), torch.rand(5, *SHAPE)
    found = relu_network_of(module, SHAPE)

    assert architecture_of(found) == expected
    outputs = module(inputs)
    torch.testing.assert_close(found(inputs), outputs[:, 0] if outputs.shape[1] == 1 else outputs)
    assert "layers.0.weight" in found.state_dict()


@pytest.mark.parametrize(("network", "why"), OTHER.values(), ids=OTHER)
def test_what_another_network_has_is_named(network: Callable[[], nn.Module], why: str) -> None:
    with pytest.raises(NotCoveredError, match=why):
        relu_network_of(network().eval(), SHAPE)


@pytest.mark.parametrize("network", [Named, First])
def test_other_outputs_than_those_of_the_layers_are_not_covered(network: Callable[[], nn.Module]) -> None:
    with pytest.raises(NotCoveredError):
        relu_network_of(network().eval(), SHAPE)


def test_the_parameters_are_the_modules_own() -> None:
    module = two_layers().eval()
    assert relu_network_of(module, SHAPE).layers[0].weight is module[1].weight  # type: ignore[index]
