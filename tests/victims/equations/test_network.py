"""The two recursions of a network, against automatic differentiation."""

from __future__ import annotations

import itertools

import pytest
import torch

from victims.equations.network import Network


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
