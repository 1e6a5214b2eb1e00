"""The analytic residual and its gradient against automatic double differentiation, in float64."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from attacks.stationarity.gates import smooth_gate_relu
from attacks.stationarity.network import Network
from attacks.stationarity.published import published_loss
from attacks.stationarity.residual import StationarityResidual, Weighting

ARCHITECTURES = {
    "one hidden layer": ((7, 9, 1), (True, False)),
    "two hidden layers": ((7, 9, 8, 1), (True, False, False)),
    "three hidden layers": ((7, 9, 8, 6, 1), (True, False, False, False)),
    "biases everywhere": ((7, 9, 8, 6, 1), (True, True, True, False)),
    "no bias": ((7, 9, 8, 1), (False, False, False)),
}
M = 5


def network(name: str, generator: torch.Generator) -> Network:
    widths, biases = ARCHITECTURES[name]
    weights = tuple(torch.randn(b, a, generator=generator, dtype=torch.float64) for a, b in pairwise(widths))
    values = tuple(
        torch.randn(b, generator=generator, dtype=torch.float64) if bias else None
        for b, bias in zip(widths[1:], biases, strict=True)
    )
    return Network(weights, values)


def autograd_value(net: Network, weighting: Weighting, x: Tensor, c: Tensor, alpha: float) -> Tensor:
    """The weighted residual by its definition: theta - grad_theta sum_i c_i Phi(x_i), entry by entry."""
    weights = [w.clone().requires_grad_() for w in net.weights]
    biases = [None if b is None else b.clone().requires_grad_() for b in net.biases]
    hidden = x
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        hidden = torch.nn.functional.linear(hidden, weight, bias)
        hidden = smooth_gate_relu(hidden, alpha) if layer < net.depth - 1 else hidden
    output = (c * hidden[:, 0]).sum()
    total = torch.zeros((), dtype=torch.float64)
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        rows = weighting.rows if layer == 0 else torch.ones(len(weight), dtype=torch.float64)
        columns = weighting.columns if layer == 0 else torch.ones(weight.shape[1], dtype=torch.float64)
        (gradient,) = torch.autograd.grad(output, weight, create_graph=True)
        square = ((weight.detach() - gradient) * rows[:, None] * columns).square().sum()
        norm = (weight.detach() * rows[:, None] * columns).square().sum()
        if bias is not None:
            scale = rows * (weighting.bias if layer == 0 else 1.0)
            (gradient,) = torch.autograd.grad(output, bias, create_graph=True)
            square = square + ((bias.detach() - gradient) * scale).square().sum()
            norm = norm + (bias.detach() * scale).square().sum()
        total = total + weighting.layers[layer] * square / norm
    return total


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
    rows, columns = (torch.rand(k, generator=generator, dtype=torch.float64) + 0.1 for k in (9, 7))
    weighting = Weighting(weights, rows, columns, 0.7)
    x = torch.randn(M, 7, generator=generator, dtype=torch.float64)
    c = torch.randn(M, generator=generator, dtype=torch.float64)

    value, x_gradient, c_gradient = StationarityResidual(net, weighting)(x, c, alpha)

    x.requires_grad_()
    c.requires_grad_()
    expected = autograd_value(net, weighting, x, c, alpha)
    expected_x, expected_c = torch.autograd.grad(expected, [x, c])
    torch.testing.assert_close(value, expected.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(x_gradient, expected_x, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(c_gradient, expected_c, rtol=1e-10, atol=1e-10)


def test_published_loss_is_the_unweighted_residual() -> None:
    generator = torch.Generator().manual_seed(1)
    net = network("two hidden layers", generator)
    x = torch.randn(M, 7, generator=generator, dtype=torch.float64)
    multipliers = torch.rand(M, generator=generator, dtype=torch.float64)
    signs = torch.tensor([-1.0, -1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    norms = [float(norm) for norm in net.layer_square_norms()]
    residual = StationarityResidual(net, Weighting.uniform(net, tuple(norms)))
    value, _, _ = residual(x, multipliers * signs / M, 3.0)  # the published loss averages over candidates
    torch.testing.assert_close(value, published_loss(net, x, multipliers, signs, 3.0))


def test_smooth_gate_is_relu_forward_and_sigmoid_backward_twice() -> None:
    z = torch.tensor([-0.4, 0.1, 2.0], dtype=torch.float64, requires_grad=True)
    out = smooth_gate_relu(z, 5.0)
    torch.testing.assert_close(out, z.relu())
    (slope,) = torch.autograd.grad(out.sum(), z, create_graph=True)
    gate = torch.sigmoid(5.0 * z)
    torch.testing.assert_close(slope, gate)
    (curvature,) = torch.autograd.grad(slope.sum(), z)
    torch.testing.assert_close(curvature, 5.0 * gate * (1 - gate))
