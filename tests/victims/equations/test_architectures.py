"""Networks as they are built: convolutions that shrink what they are laid on."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from victims.equations.architectures import blank, build, seeded
from victims.errors import UserError
from victims.networks import BuiltSpec, CNNSpec, ConvSpec, MLPSpec, RandomFeaturesSpec, SmoothMLPSpec, has_tail

SHAPE = (3, 6, 5)


def test_convolutions_take_each_others_maps_and_the_first_alone_has_a_bias() -> None:
    spec = ConvSpec(kernel=2, channels=(4, 7), hidden=(11,), outputs=2, first_layer_scale=None)
    shapes = {name: tuple(value.shape) for name, value in blank(spec, SHAPE).named_parameters()}
    assert list(shapes.values()) == [(4, 3, 2, 2), (4,), (7, 4, 2, 2), (11, 7 * 4 * 3), (2, 11)]
    assert spec.label == "conv(2, 4)-conv(2, 7)-11-2"


@pytest.mark.parametrize(
    ("channels", "largest", "told"), [(2, 5, "a kernel of 6"), ((2, 2), 3, "a kernel of 4, 2 times in a row,")]
)
def test_kernels_fit_as_long_as_a_pixel_is_left(channels: int | tuple[int, ...], largest: int, told: str) -> None:
    """On 5 pixels one kernel of 5 leaves one, two of 3 leave one."""
    spec = ConvSpec(kernel=largest, channels=channels, hidden=(), first_layer_scale=None)
    images = torch.rand(4, *SHAPE, dtype=torch.float64)
    assert build(spec, SHAPE, torch.Generator(), torch.float64)(images).shape == (4,)
    with pytest.raises(UserError, match=f"{told} does not fit into images of 6 x 5 pixels"):
        blank(spec.model_copy(update={"kernel": largest + 1}), SHAPE)


@pytest.mark.parametrize(
    "spec",
    [
        MLPSpec(hidden=(7, 5), first_layer_scale=None),
        MLPSpec(hidden=(7, 5), biases="all", first_layer_scale=None),
        MLPSpec(hidden=(7, 5), biases="every", first_layer_scale=None),
        ConvSpec(channels=2, hidden=(7,), first_layer_scale=None),
        CNNSpec(channels=(2,), hidden=(7,)),
        SmoothMLPSpec(hidden=(7, 5)),
        SmoothMLPSpec(hidden=(7, 5), activation="tanh", layer_norm=True),
        RandomFeaturesSpec(width=9),
        RandomFeaturesSpec(width=9, activation="relu+tanh"),
    ],
    ids=lambda spec: spec.label,
)
def test_a_homogeneous_network_is_that_of_its_scaled_weights_up_to_a_factor(spec: BuiltSpec) -> None:
    generator = torch.Generator().manual_seed(0)
    model, images = seeded(spec, SHAPE, 0), torch.randn(6, *SHAPE, generator=generator)
    with torch.no_grad():
        for parameter in model.parameters():  # of random features they begin at zero
            parameter.add_(torch.randn(parameter.shape, generator=generator) / 4)
        scaled = {name: 3 * value if value.is_floating_point() else value for name, value in model.state_dict().items()}
        before = model(images)
        model.load_state_dict(scaled)
        factors = model(images) / before
    assert bool((factors > 0).all() and factors.std() < 1e-3 * factors.mean()) == spec.homogeneous


def test_between_the_layers_of_a_smooth_network_are_its_activation_and_normalisation() -> None:
    spec = SmoothMLPSpec(hidden=(7, 5), activation="tanh", layer_norm=True, outputs=2)
    model, images = seeded(spec, SHAPE, 0), torch.randn(6, *SHAPE, generator=torch.Generator().manual_seed(0))
    state = model.state_dict()
    hidden = F.linear(images.flatten(1), state["layers.0.weight"], state["layers.0.bias"])
    for norm, layer in ((0, 2), (3, 5)):
        normal = (hidden - hidden.mean(1, keepdim=True)) / (hidden.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
        activation = torch.tanh(normal * state[f"tail.{norm}.weight"] + state[f"tail.{norm}.bias"])
        hidden = F.linear(activation, state[f"tail.{layer}.weight"], state[f"tail.{layer}.bias"])
    torch.testing.assert_close(model(images), hidden)
    assert (spec.label, spec.uncovered) == ("mlp tanh ln 7-5-2", "tanh in the place of ReLUs, and layer normalisation")
    assert set(state) == set(seeded(SmoothMLPSpec(hidden=(7, 5), layer_norm=True, outputs=2), SHAPE, 0).state_dict())
    gelu = seeded(SmoothMLPSpec(hidden=(7,)), SHAPE, 0)
    before = gelu.layers[0](images.flatten(1))
    assert torch.equal(gelu(images), gelu.tail[1](F.gelu(before))[:, 0])


@pytest.mark.parametrize(("activation", "function"), [("relu", F.relu), ("gelu", F.gelu), ("tanh", torch.tanh)])
def test_a_cnn_has_its_activation_behind_each_layer_but_the_last(
    activation: str, function: Callable[[Tensor], Tensor]
) -> None:
    spec = CNNSpec.model_validate({"channels": (2, 3), "hidden": (7, 5), "activation": activation, "outputs": 2})
    model, images = seeded(spec, SHAPE, 0), torch.randn(6, *SHAPE, generator=torch.Generator().manual_seed(0))
    maps = images
    for convolution, norm in ((0, 1), (3, 4)):
        maps = function(model.get_submodule(f"front.{norm}")(model.get_submodule(f"front.{convolution}")(maps)))
    hidden, *linears = maps.flatten(1), *(part for part in model.modules() if isinstance(part, nn.Linear))
    for linear in linears[:-1]:
        hidden = function(linear(hidden))
    torch.testing.assert_close(model(images), linears[-1](hidden))
    assert has_tail(spec) == (activation != "relu")
    assert (f" {activation}" in spec.label, f"{activation} in the place" in spec.uncovered) == (has_tail(spec),) * 2


def test_weights_are_drawn_as_widely_as_their_inputs_are_few() -> None:
    """A kernel's inputs are channels times pixels; the first layer has a scale of its own."""
    spec = ConvSpec(kernel=3, channels=(8, 20), hidden=(50,), outputs=3, first_layer_scale=0.01)
    model = build(spec, (3, 9, 9), torch.Generator().manual_seed(0), torch.float64)
    first, *others = (next(layer.parameters()) for layer in model.layers)
    assert float(first.detach().std()) == pytest.approx(0.01, rel=0.1)
    for weight, inputs in zip(others, (8 * 9, 20 * 25, 50), strict=True):
        assert 0.95 < float(weight.detach().abs().max()) * math.sqrt(inputs) <= 1


def test_a_seeded_first_layer_is_what_torch_draws_at_the_deviation_that_is_asked_for() -> None:
    network = seeded(MLPSpec(hidden=(200,), first_layer_scale=0.01), (1, 10, 10), 5)
    torch.manual_seed(5)
    drawn = nn.Linear(100, 200)
    weight, bias = list(network.parameters())[:2]
    assert float(weight.detach().std()) == pytest.approx(0.01, rel=0.02)
    for own, plain in ((weight, drawn.weight), (bias, drawn.bias)):
        torch.testing.assert_close(own / own.abs().max(), plain / plain.abs().max())
