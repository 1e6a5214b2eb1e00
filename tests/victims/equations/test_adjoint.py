"""The analytic residual and its gradient against automatic double differentiation, in float64."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from attacks.kkt_family.coefficients import (
    Coefficients,
    free_coefficients,
    margin_coefficients,
    tied_coefficients,
)
from victims.equations.adjoint import StationarityResidual, Weighting, neuron_norms
from victims.equations.gates import smooth_gate_relu
from victims.equations.network import Network

ARCHITECTURES = {
    "one hidden layer": ((7, 9), (True, False)),
    "two hidden layers": ((7, 9, 8), (True, False, False)),
    "three hidden layers": ((7, 9, 8, 6), (True, False, False, False)),
    "biases everywhere": ((7, 9, 8, 6), (True, True, True, False)),
    "no bias": ((7, 9, 8), (False, False, False)),
}
M = 5


def network(name: str, generator: torch.Generator, outputs: int = 1) -> Network:
    widths, biases = ARCHITECTURES[name]
    pairs = pairwise((*widths, outputs))
    weights = tuple(torch.randn(b, a, generator=generator, dtype=torch.float64) for a, b in pairs)
    values = tuple(
        torch.randn(len(weight), generator=generator, dtype=torch.float64) if bias else None
        for weight, bias in zip(weights, biases, strict=True)
    )
    return Network(weights, values)


class ShiftedGateReLU(torch.autograd.Function):
    """relu(z), with sigmoid(alpha z + o) in the place of its derivative, which can be differentiated by z and o."""

    @staticmethod
    def forward(ctx: Any, before: Tensor, offsets: Tensor, alpha: float) -> Tensor:
        ctx.save_for_backward(before, offsets)
        ctx.alpha = alpha
        return before.relu()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        before, offsets = ctx.saved_tensors
        return gradients[0] * torch.sigmoid(ctx.alpha * before + offsets), None, None


def autograd_value(
    net: Network,
    weighting: Weighting,
    x: Tensor,
    rows: Callable[[Tensor], Tensor],
    alpha: float,
    sharpness: Tensor | float = 1.0,
    offsets: Tensor | None = None,
) -> Tensor:
    """The weighted residual by its definition: theta - sum_ij c_ij grad_theta Phi_j(x_i), entry by entry."""
    weights = [w.clone().requires_grad_() for w in net.weights]
    biases = [None if b is None else b.clone().requires_grad_() for b in net.biases]
    hidden = x
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        hidden = torch.nn.functional.linear(hidden, weight, bias)
        if layer < net.depth - 1:
            factor = sharpness if layer == 0 else 1.0
            if layer == 0 and offsets is not None:
                hidden = ShiftedGateReLU.apply(hidden * factor, offsets, alpha) / factor
            else:
                hidden = smooth_gate_relu(hidden * factor, alpha) / factor
    c = rows(hidden)
    total = torch.zeros((), dtype=torch.float64)
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        row_weights = weighting.neurons if layer == 0 else torch.ones(len(weight), dtype=torch.float64)
        columns = weighting.coordinates if layer == 0 else torch.ones(weight.shape[1], dtype=torch.float64)
        (gradient,) = torch.autograd.grad(hidden, weight, c, create_graph=True)
        square = ((weight.detach() - gradient) * row_weights[:, None] * columns).square().sum()
        norm = (weight.detach() * row_weights[:, None] * columns).square().sum()
        if bias is not None:
            scale = row_weights * (weighting.bias if layer == 0 else 1.0)
            (gradient,) = torch.autograd.grad(hidden, bias, c, create_graph=True)
            square = square + ((bias.detach() - gradient) * scale).square().sum()
            norm = norm + (bias.detach() * scale).square().sum()
        total = total + weighting.layers[layer] * square / norm
    return total


def assert_equals_autograd(net: Network, coefficients: Coefficients, alpha: float, weights: tuple[float, ...]) -> None:
    generator = torch.Generator().manual_seed(3)
    rows, columns = (torch.rand(k, generator=generator, dtype=torch.float64) + 0.1 for k in (9, 7))
    weighting = Weighting(weights, rows, columns, 0.7)
    x = torch.randn(M, 7, generator=generator, dtype=torch.float64)
    value, x_gradient = StationarityResidual(net, weighting)(x, coefficients.at, alpha)
    gradients = [variable.grad for variable in coefficients.variables]

    x.requires_grad_()
    expected = autograd_value(net, weighting, x, coefficients.at, alpha)
    expected_x, *expected_gradients = torch.autograd.grad(expected, [x, *coefficients.variables])
    torch.testing.assert_close(value, expected.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(x_gradient, expected_x, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(gradients, expected_gradients, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("alpha", [0.5, 2.3, 50.0])
@pytest.mark.parametrize("layers", ["all", "first", "last", "mixed"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_gradient_equals_autograd(name: str, layers: str, alpha: float) -> None:
    generator = torch.Generator().manual_seed(0)
    net = network(name, generator)
    depth = net.depth
    weights = {
        "all": (1.0,) * depth,
        "first": (1.0,) + (0.0,) * (depth - 1),
        "last": (0.0,) * (depth - 1) + (1.0,),
        "mixed": tuple(0.5 + layer for layer in range(depth)),
    }[layers]
    free = free_coefficients(torch.randn(M, 1, generator=generator, dtype=torch.float64))
    assert_equals_autograd(net, free, alpha, weights)


def kinds(outputs: int, generator: torch.Generator) -> dict[str, Coefficients]:
    """Every kind of coefficients that a network with so many outputs can have."""
    labels = torch.arange(M) % max(outputs, 2)
    start = torch.rand(M, generator=generator, dtype=torch.float64)
    losses = ("cross-entropy", "l2", "l2.5", "huber") if outputs == 1 else ("cross-entropy",)
    return {
        "free": free_coefficients(torch.randn(M, outputs, generator=generator, dtype=torch.float64)),
        "margins": margin_coefficients(labels, start),
        "runner-up": margin_coefficients(labels, start, "runner-up"),
        "plain": margin_coefficients(labels, start, positive=False),
    } | {f"tied to {loss}": tied_coefficients(loss, labels, start) for loss in losses}  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("outputs", [1, 2, 3, 10])
def test_gradient_equals_autograd_for_all_coefficients(outputs: int, name: str) -> None:
    generator = torch.Generator().manual_seed(outputs)
    net = network(name, generator, outputs)
    for coefficients in kinds(outputs, generator).values():
        assert_equals_autograd(net, coefficients, 2.3, (1.0,) * net.depth)


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "one hidden layer"])
@pytest.mark.parametrize("parts", [1, 2])
def test_gates_of_layer_1_have_a_sharpness_each(name: str, parts: int) -> None:
    """A gate sigmoid(alpha s_j z_j) is that of a neuron scaled by s_j whose activation is divided by s_j."""
    generator = torch.Generator().manual_seed(5)
    net = network(name, generator)
    sharpness = torch.rand(9, generator=generator, dtype=torch.float64) + 0.2
    weighting = Weighting.uniform(net, tuple(0.5 + layer for layer in range(net.depth)))
    coefficients = free_coefficients(torch.randn(M, 1, generator=generator, dtype=torch.float64))
    x = torch.randn(M, 7, generator=generator, dtype=torch.float64)
    residual = StationarityResidual(net, weighting, parts, sharpness=sharpness)
    value, gradient = residual(x, coefficients.at, 2.3)
    again = residual.in_parts()(x, coefficients.at, 2.3)
    expected = autograd_value(net, weighting, x.requires_grad_(), coefficients.at, 2.3, sharpness)
    (expected_gradient,) = torch.autograd.grad(expected, x)
    torch.testing.assert_close((value, gradient), (expected.detach(), expected_gradient), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(again, (value, gradient), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("alike", [True, False])
def test_gates_of_layer_1_have_offsets(name: str, parts: int, alike: bool) -> None:
    """With gates sigmoid(alpha s z + o) the gradients are those of autograd; those by c and o add to what was there."""
    generator = torch.Generator().manual_seed(6)
    net = network(name, generator)
    sharpness = None if alike else torch.rand(9, generator=generator, dtype=torch.float64) + 0.2
    weighting = Weighting.uniform(net, tuple(0.5 + layer for layer in range(net.depth)))
    coefficients = free_coefficients(torch.randn(M, 1, generator=generator, dtype=torch.float64))
    x, offsets = (torch.randn(M, k, generator=generator, dtype=torch.float64) for k in (7, 9))
    variables = [*coefficients.variables, offsets.requires_grad_()]
    residual = StationarityResidual(net, weighting, parts, sharpness=sharpness)
    value, gradient = residual(x, coefficients.at, 2.3, offsets)
    twice = [2 * variable.grad for variable in variables if variable.grad is not None]
    residual(x, coefficients.at, 2.3, offsets)
    factor = 1.0 if sharpness is None else sharpness
    expected = autograd_value(net, weighting, x.requires_grad_(), coefficients.at, 2.3, factor, offsets)
    gradients = torch.autograd.grad(expected, [x, *variables])
    torch.testing.assert_close((value, gradient), (expected.detach(), gradients[0]), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(twice, [2 * one for one in gradients[1:]], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close([variable.grad for variable in variables], twice, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("parts", [2, 3, 8])
@pytest.mark.parametrize("outputs", [1, 3])
def test_parts_add_up_to_the_whole(outputs: int, parts: int) -> None:
    """Value, gradient and the coefficients' own gradients do not depend on how many candidates are taken at a time."""
    generator = torch.Generator().manual_seed(outputs)
    net = network("biases everywhere", generator, outputs)
    weighting = Weighting.uniform(net, (1.0, 0.5, 0.0, 2.0))
    x = torch.randn(M, 7, generator=generator, dtype=torch.float64)
    for name in kinds(outputs, generator):
        found = []
        for count in (1, parts):
            coefficients = kinds(outputs, torch.Generator().manual_seed(3))[name]
            value, gradient = StationarityResidual(net, weighting, count)(x, coefficients.at, 2.3)
            found.append([value, gradient, *(variable.grad for variable in coefficients.variables)])
        torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


def test_the_norms_of_neurons_are_relative_and_none_is_smaller_than_a_fiftieth() -> None:
    """Weights and bias of 5, 5, 0.4 and 0.01 have the mean square 12.54."""
    weight = torch.tensor([[3.0, 0.0], [0.0, 5.0], [0.4, 0.0], [0.0, 0.01]], dtype=torch.float64)
    bias = torch.tensor([4.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    root = (50.1601 / 4) ** 0.5
    assert neuron_norms(weight, bias).tolist() == pytest.approx([5 / root, 5 / root, 0.4 / root, 0.02])
    assert neuron_norms(weight[:2], None).tolist() == pytest.approx([3 / 17**0.5, 5 / 17**0.5])
