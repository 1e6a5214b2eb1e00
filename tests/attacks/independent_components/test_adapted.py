"""Errors through a low-rank update: what it lets into W1 is compared with what the network says, signs and all."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from attacking import context, sgd_network, victim_of
from torch import Tensor, nn

from attacks.independent_components.adapted import SMALLEST, Adapted, let_through
from attacks.independent_components.errors import of_one_label
from attacks.independent_components.orientation import oriented
from attacks.independent_components.span import UpdateSpan
from attacks.independent_components.tail import Tailed
from attacks.unknown_start.adapter import without_adapter_start
from victims.base import Victim
from victims.equations.network import Network


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1000 + seed), dtype=torch.float64)


def network() -> Network:
    return Network((drawn(30, 12), 0.02 * drawn(6, 30, seed=1)), (drawn(30, seed=2), drawn(6, seed=3)))


def tailed() -> Tailed:
    """The same network, its last layer as a tail."""
    whole = network()
    tail = nn.Sequential(nn.ReLU(), nn.Linear(30, 6)).double()
    with torch.no_grad():
        tail[1].weight.copy_(whole.weights[1])
        tail[1].bias.copy_(whole.biases[1])  # type: ignore[arg-type]
    return Tailed(whole.weights[0], whole.biases[0], tail.requires_grad_(False), 6)


def test_both_are_in_the_same_directions() -> None:
    up, errors = drawn(40, 8), drawn(5, 40, seed=1)
    of_network, of_layer = let_through(up)
    torch.testing.assert_close(errors @ up @ up.T @ of_layer, errors @ of_network)
    sizes = torch.linalg.svdvals(up)
    torch.testing.assert_close(of_network.T @ of_network, sizes.diag())
    torch.testing.assert_close(of_layer.T @ of_layer, (sizes**-3).diag())


def test_directions_that_are_rounding_are_left_out() -> None:
    left = torch.linalg.qr(drawn(40, 3)).Q
    sizes = torch.tensor([2.0, 2.2 * SMALLEST, 1.8 * SMALLEST], dtype=torch.float64)
    of_network, of_layer = let_through(left * sizes)
    assert of_network.shape == of_layer.shape == (40, 2)


@pytest.mark.parametrize("layers", [network(), tailed()], ids=["network", "tail"])
def test_the_errors_of_a_label_are_autograds_and_fit_that_sign_alone(layers: Network | Tailed) -> None:
    weight = layers.weights[0] if isinstance(layers, Network) else layers.weight
    inputs, labels = 3 * drawn(7, 12, seed=5), torch.tensor([0, 5, 2, 3, 1, 4, 0])
    before = (inputs @ weight.T + network().biases[0]).requires_grad_()
    outputs = before.relu() @ network().weights[1].T + network().biases[1]
    errors = -torch.autograd.grad(nn.functional.cross_entropy(outputs, labels, reduction="sum"), before)[0]
    adapted = Adapted(layers, torch.eye(30, dtype=torch.float64))
    torch.testing.assert_close(
        of_one_label(inputs, errors, adapted), torch.ones(7, dtype=torch.float64), atol=1e-2, rtol=0
    )
    assert float(of_one_label(inputs, -errors, adapted).median()) < 0.8
    through = drawn(30, 4, seed=6)
    fits = of_one_label(inputs, errors @ through, replace(adapted, inwards=through))
    torch.testing.assert_close(fits, torch.ones(7, dtype=torch.float64), atol=1e-2, rtol=0)


def test_labels_tell_signs_where_any_errors_would_do() -> None:
    """Six outputs make up whatever comes through four directions, so the share that is explained says nothing."""
    inputs, labels = 3 * drawn(7, 12, seed=5), torch.tensor([0, 5, 2, 3, 1, 4, 0])
    before = (inputs @ network().weights[0].T + network().biases[0]).requires_grad_()
    outputs = before.relu() @ network().weights[1].T + network().biases[1]
    errors = -torch.autograd.grad(nn.functional.cross_entropy(outputs, labels, reduction="sum"), before)[0]
    through = drawn(30, 4, seed=6)
    signs = torch.tensor([1.0, -1, -1, 1, -1, 1, 1], dtype=torch.float64)[:, None]
    added = (errors @ through).T @ inputs
    found = oriented(signs * inputs, added, None, Adapted(network(), through))
    assert int((found == inputs).all(1).sum()) >= 6


def victim() -> Victim:
    plain = sgd_network("photos", 20, (60, 40), lr=0.01, batch_size=4, epochs=60)
    recipe = plain.training.model_copy(update={"lora_rank": 30, "dtype": "float64"})
    return victim_of(plain.model_copy(update={"name": "photos-mlp-20-c10-lora", "seed": 7, "training": recipe}))


def test_signs_are_told_through_an_update() -> None:
    trained = victim()
    states = trained.start, trained.model.state_dict()
    start, end = (Network.of({name: value.double() for name, value in one.items()}) for one in states)
    apart, _ = without_adapter_start(start, end, 20, context(), shape=(3, 32, 32))
    assert apart is not None
    span = UpdateSpan.added_to(start, apart.network, None, apart=apart)
    through = span.through_update(apart.up)
    assert isinstance(through.network, Adapted)
    assert len(through.way) == len(span.way)
    images = torch.as_tensor(trained.split.inputs).flatten(1).double()
    signs = torch.where(torch.arange(20) % 3 == 0, -1.0, 1.0)[:, None]
    found = oriented(signs * images, through.added, through.bias, through.network)
    assert int((found == images).all(1).sum()) >= 18
    plain = oriented(signs * images, span.added, span.bias, span.network)
    assert int((plain == images).all(1).sum()) < 18, "without the update's part in it"
