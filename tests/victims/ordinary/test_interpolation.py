"""Random features: their draw, the last layer that interpolates, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from attacking import RANDOM_FEATURES, victim_of
from pydantic import ValidationError

from victims.equations.architectures import blank, seeded, split_last
from victims.equations.losses import sample_losses
from victims.errors import UserError
from victims.ordinary.descent import Examples
from victims.ordinary.interpolation import interpolate
from victims.recipes import GradientDescent
from victims.spec import CNNSpec, MLPSpec, RandomFeaturesSpec, VictimSpec

SHAPE = (1, 4, 4)


def features(outputs: int = 3, width: int = 40, **fields: Any) -> VictimSpec:
    architecture = RandomFeaturesSpec(width=width, outputs=outputs, **fields)
    return RANDOM_FEATURES.model_copy(update={"architecture": architecture})


def examples(n: int = 6, classes: int = 3) -> Examples:
    inputs = torch.randn(n, *SHAPE, generator=torch.Generator().manual_seed(0))
    return Examples(inputs, torch.arange(n) % classes)


@pytest.mark.parametrize("activation", ["relu", "relu+tanh"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_it_is_where_gradient_descent_on_the_squared_error_ends(activation: str, outputs: int) -> None:
    spec, members = features(outputs, activation=activation), examples(classes=max(outputs, 2))
    trained = interpolate(spec, members, lambda progress: None)
    model = seeded(spec.architecture, SHAPE, spec.seed).double()  # type: ignore[arg-type]
    _, head = split_last(model)
    inputs = members.inputs.double()
    optimiser = torch.optim.SGD([head.weight], lr=0.02)
    for _ in range(20_000):
        optimiser.zero_grad()
        loss = sample_losses("l2", model(inputs), members.labels).mean()
        loss.backward()
        optimiser.step()
        if float(loss.detach()) < 1e-22:
            break
    for name, value in trained.model.state_dict().items():
        assert torch.allclose(value, model.state_dict()[name], atol=1e-9), name
    assert not torch.equal(trained.start.state_dict()["layers.1.weight"], head.weight)


def test_features_are_drawn_at_unit_scale_and_stay() -> None:
    trained = interpolate(features(width=4000), examples(), lambda progress: None)
    drawn = trained.start.state_dict()["layers.0.weight"]
    assert torch.equal(drawn, trained.model.state_dict()["layers.0.weight"])
    # the mean square of N draws of N(0, s^2) is within 5 sqrt(2 / N) of s^2, but for once in 1.7 million
    assert abs(float(drawn.square().mean()) * 16 - 1) < 5 * math.sqrt(2 / drawn.numel())


def test_an_untrained_twin_is_its_start_and_another_seed_another_draw() -> None:
    twin = interpolate(features().as_twin("untrained"), examples(), lambda progress: None)
    assert all(torch.equal(value, twin.start.state_dict()[name]) for name, value in twin.model.state_dict().items())
    other = interpolate(features().retrained(1), examples(), lambda progress: None)
    assert not torch.equal(other.start.state_dict()["layers.0.weight"], twin.start.state_dict()["layers.0.weight"])


@pytest.mark.parametrize(
    "spec", [MLPSpec(hidden=(7, 5)), CNNSpec(channels=(3,), outputs=4), RandomFeaturesSpec(width=9)]
)
def test_a_network_is_its_last_layer_on_what_stands_below(spec: Any) -> None:
    network, inputs = blank(spec, SHAPE), torch.randn(5, *SHAPE)
    before = [name for name, _ in network.named_modules()]
    below, last = split_last(network)
    outputs = last(below(inputs))
    assert torch.equal(outputs[:, 0] if outputs.shape[1] == 1 else outputs, network(inputs))
    assert [name for name, _ in network.named_modules()] == before


def test_the_activation_is_what_it_says() -> None:
    spec = RandomFeaturesSpec(width=9, activation="relu+tanh")
    network = blank(spec, SHAPE)
    inputs = torch.randn(5, *SHAPE)
    drawn = inputs.flatten(1) @ network.state_dict()["layers.0.weight"].T
    below, _ = split_last(network)
    assert torch.allclose(below(inputs), drawn.clamp_min(0) + drawn.tanh())


def test_it_comes_back_from_the_cache_with_its_start() -> None:
    victim, again = victim_of(RANDOM_FEATURES), victim_of(RANDOM_FEATURES)
    assert victim.start is not None
    assert all(torch.equal(value, again.start[name]) for name, value in victim.start.items())
    assert victim.card.train_loss < 1e-10
    assert 0 < victim.card.movement < 1
    assert victim.flags == again.flags == []  # the features are ReLUs, without biases
    inputs = torch.from_numpy(victim.split.inputs)
    assert np.allclose(again.model(inputs).detach().numpy(), 2 * victim.split.labels - 1, atol=1e-4)


def test_images_that_features_do_not_tell_apart_are_refused() -> None:
    members = examples()
    twice = Examples(members.inputs[[0, 0, 1, 2, 3, 4]], members.labels)
    for spec, given in ((features(), twice), (features(width=4), members)):
        with pytest.raises(UserError, match="not independent"):
            interpolate(spec, given, lambda progress: None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"loss": "cross-entropy"}, "the loss is l2"),
        ({"training": GradientDescent()}, "trained by `interpolation`"),
        ({"architecture": MLPSpec()}, "trained by `interpolation`"),
    ],
)
def test_other_recipes_and_losses_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        VictimSpec(**(dict(RANDOM_FEATURES) | changes))


def test_the_loss_of_several_outputs_is_the_squared_distance_to_the_one_hot_label() -> None:
    outputs, labels = torch.tensor([[1.0, 2.0, 4.0], [0.0, 1.0, 0.0]]), torch.tensor([2, 1])
    assert sample_losses("l2", outputs, labels).tolist() == [1 + 4 + 9, 0]
