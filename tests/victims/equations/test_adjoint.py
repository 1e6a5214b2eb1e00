"""The analytic residual and its gradient against automatic double differentiation, in float64."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from attacks.kkt_family.coefficients import (
    Coefficients,
    free_coefficients,
    margin_coefficients,
    margin_rows,
    tied_coefficients,
)
from attacks.kkt_family.published import published_loss
from victims.equations.adjoint import StationarityResidual, Weighting
from victims.equations.architectures import build
from victims.equations.gates import smooth_gate_relu
from victims.equations.losses import rival_margins, sample_losses
from victims.equations.network import Network
from victims.equations.stationarity import AutodiffResidual, layer_residuals
from victims.spec import ConvSpec

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


def autograd_value(
    net: Network, weighting: Weighting, x: Tensor, rows: Callable[[Tensor], Tensor], alpha: float
) -> Tensor:
    """The weighted residual by its definition: theta - sum_ij c_ij grad_theta Phi_j(x_i), entry by entry."""
    weights = [w.clone().requires_grad_() for w in net.weights]
    biases = [None if b is None else b.clone().requires_grad_() for b in net.biases]
    hidden = x
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        hidden = torch.nn.functional.linear(hidden, weight, bias)
        hidden = smooth_gate_relu(hidden, alpha) if layer < net.depth - 1 else hidden
    c = rows(hidden)
    total = torch.zeros((), dtype=torch.float64)
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        row_weights = weighting.rows if layer == 0 else torch.ones(len(weight), dtype=torch.float64)
        columns = weighting.columns if layer == 0 else torch.ones(weight.shape[1], dtype=torch.float64)
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
    value, x_gradient = StationarityResidual(net, weighting)(x, coefficients.rows, alpha)
    gradients = [variable.grad for variable in coefficients.variables]

    x.requires_grad_()
    expected = autograd_value(net, weighting, x, coefficients.rows, alpha)
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


@pytest.mark.parametrize("outputs", [1, 2, 3, 10])
def test_margin_rows_are_the_gradients_of_margins(outputs: int) -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(M) % max(outputs, 2)
    values = torch.randn(M, outputs, generator=generator, dtype=torch.float64, requires_grad=True)
    margins = rival_margins(values[:, 0] if outputs == 1 else values, labels)
    soft, hard = -torch.logsumexp(-margins, 1), margins.amin(1)
    (soft_rows,) = torch.autograd.grad(soft.sum(), values, retain_graph=True)
    (hard_rows,) = torch.autograd.grad(hard.sum(), values)
    torch.testing.assert_close(margin_rows(values.detach(), labels, "all"), soft_rows)
    torch.testing.assert_close(margin_rows(values.detach(), labels, "runner-up"), hard_rows)


@pytest.mark.parametrize("loss", ["cross-entropy", "l2", "l2.5", "huber"])
def test_tied_rows_are_those_of_a_gradient_step(loss: str) -> None:
    """theta + sum_i c_i grad Phi(x_i) at equal factors f is one step of size f n down the mean loss."""
    generator = torch.Generator().manual_seed(5)
    labels, factors = torch.arange(M) % 2, torch.full((M,), 0.3, dtype=torch.float64)
    outputs = torch.randn(M, 1, generator=generator, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(sample_losses(loss, outputs[:, 0], labels).sum(), outputs)  # type: ignore[arg-type]
    rows = tied_coefficients(loss, labels, factors).rows(outputs)  # type: ignore[arg-type]
    torch.testing.assert_close(rows.detach(), -0.3 * slope)


def test_published_loss_is_the_unweighted_residual() -> None:
    generator = torch.Generator().manual_seed(1)
    for outputs in (1, 3):
        net = network("two hidden layers", generator, outputs)
        x = torch.randn(M, 7, generator=generator, dtype=torch.float64)
        multipliers = torch.rand(M, generator=generator, dtype=torch.float64)
        coefficients = margin_coefficients(torch.tensor([0, 0, 1, 1, 1]), multipliers, "runner-up")
        norms = [float(norm) for norm in net.layer_square_norms()]
        residual = StationarityResidual(net, Weighting.uniform(net, tuple(norms)))
        # the published loss averages over candidates
        value, _ = residual(x, lambda values: coefficients.rows(values) / M, 3.0)  # noqa: B023
        torch.testing.assert_close(value, published_loss(net, x, coefficients.rows, 3.0).detach())


@pytest.mark.parametrize("outputs", [1, 3])
def test_both_residuals_agree(outputs: int) -> None:
    generator = torch.Generator().manual_seed(2)
    net, layers = network("two hidden layers", generator, outputs), (1.0, 0.5, 0.2)
    x = torch.randn(M, 7, generator=generator, dtype=torch.float64)
    labels, start = torch.arange(M) % max(outputs, 2), torch.rand(M, generator=generator, dtype=torch.float64)
    found = []
    for residual in (StationarityResidual(net, Weighting.uniform(net, layers)), AutodiffResidual(net, layers)):
        coefficients = margin_coefficients(labels, start)
        value, gradient = residual(x, coefficients.rows, 2.3)
        found.append([value, gradient, coefficients.variables[0].grad])
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-10)


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
            value, gradient = StationarityResidual(net, weighting, count)(x, coefficients.rows, 2.3)
            found.append([value, gradient, *(variable.grad for variable in coefficients.variables)])
        torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_residual_of_a_convolution_is_that_of_the_victim(outputs: int) -> None:
    """With gates as sharp as the ReLU's, theta - sum_ij c_ij grad Phi_j(x_i) of the network that is attacked."""
    generator = torch.Generator().manual_seed(4)
    spec = ConvSpec(kernel=2, channels=3, hidden=(5,), outputs=outputs, first_layer_scale=None)
    model = build(spec, (2, 4, 5), generator, torch.float64)
    net = Network.of(model.state_dict(), (2, 4, 5), torch.device("cpu"), torch.float64)
    x = torch.randn(M, 40, generator=generator, dtype=torch.float64)
    c = torch.randn(M, outputs, generator=generator, dtype=torch.float64)
    values = model(x.view(M, 2, 4, 5)).view(M, outputs)
    for layer, square in zip(model.layers, layer_residuals(net, x, lambda out: c, 1e6), strict=True):
        parameters = list(layer.parameters())
        gradients = torch.autograd.grad(values, parameters, c, retain_graph=True)
        expected = sum((p.detach() - g).square().sum() for p, g in zip(parameters, gradients, strict=True))
        torch.testing.assert_close(square.detach(), expected)


def test_smooth_gate_is_relu_forward_and_sigmoid_backward_twice() -> None:
    z = torch.tensor([-0.4, 0.1, 2.0], dtype=torch.float64, requires_grad=True)
    out = smooth_gate_relu(z, 5.0)
    torch.testing.assert_close(out, z.relu())
    (slope,) = torch.autograd.grad(out.sum(), z, create_graph=True)
    gate = torch.sigmoid(5.0 * z)
    torch.testing.assert_close(slope, gate)
    (curvature,) = torch.autograd.grad(slope.sum(), z)
    torch.testing.assert_close(curvature, 5.0 * gate * (1 - gate))
