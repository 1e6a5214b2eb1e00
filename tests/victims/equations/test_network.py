"""The two recursions of a network, against automatic differentiation."""

from __future__ import annotations

import itertools

import pytest
import torch

from victims.equations.network import Network, layer_weights


@pytest.mark.parametrize("outputs", [1, 3])
def test_what_passes_makes_up_the_gradients_of_all_layers(outputs: int) -> None:
    generator = torch.Generator().manual_seed(4)
    sizes = (7, 9, 8, outputs)
    weights = [torch.randn(to, of, generator=generator, dtype=torch.float64) for of, to in itertools.pairwise(sizes)]
    biases = [torch.randn(to, generator=generator, dtype=torch.float64) for to in sizes[1:]]
    leaves = [one.requires_grad_() for one in (*weights, *biases)]
    inputs = torch.randn(5, 7, generator=generator, dtype=torch.float64)
    hidden = inputs
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        hidden = torch.nn.functional.linear(hidden, weight, bias).relu()
    expected = torch.nn.functional.linear(hidden, weights[-1], biases[-1])
    gradients = torch.autograd.grad(expected.square().sum() / 2, leaves)  # so that c is Phi itself

    network = Network(tuple(one.detach() for one in weights), tuple(one.detach() for one in biases))
    found, activations, errors = network.passes(inputs, lambda phi: phi)

    torch.testing.assert_close(found, expected.detach(), rtol=1e-12, atol=1e-12)
    made = [error.T @ before for error, before in zip(errors, activations, strict=True)]
    torch.testing.assert_close([*made, *(error.sum(0) for error in errors)], list(gradients), rtol=1e-10, atol=1e-10)


def test_the_layers_are_read_in_their_order_and_a_front_and_a_tail_are_left_out() -> None:
    named = {
        "front.0.weight": torch.zeros(2, 1, 3, 3),
        "layers.1.weight": torch.ones(2, 3),
        "layers.1.bias": torch.ones(2),
        "layers.0.weight": torch.zeros(3, 4),
        "tail.weight": torch.ones(5, 2),
    }
    assert [tuple(weight.shape) for weight in layer_weights(named)] == [(3, 4), (2, 3)]
    network = Network.of(named, dtype=torch.float64)
    assert [weight.dtype for weight in network.weights] == [torch.float64] * 2
    assert network.biases[0] is None
    assert network.biases[1] is not None
    assert torch.equal(network.biases[1], torch.ones(2, dtype=torch.float64))
    assert Network.of(named).weights[1] is named["layers.1.weight"]
    assert layer_weights({}) == []


def test_a_layer_that_is_missing_between_two_others_is_no_shorter_network() -> None:
    with pytest.raises(KeyError, match=r"layers\.1\.weight"):
        layer_weights({"layers.0.weight": torch.zeros(3, 4), "layers.2.weight": torch.zeros(2, 3)})
