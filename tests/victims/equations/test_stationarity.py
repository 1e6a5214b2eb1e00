"""The stationarity residual in the form to read, against the network that is attacked and its written-down adjoint."""

from __future__ import annotations

import pytest
import torch
from autodiff import AutodiffResidual

from attacks.kkt_family.coefficients import margin_coefficients
from victims.equations.adjoint import StationarityResidual, Weighting
from victims.equations.architectures import build
from victims.equations.gates import smooth_gate
from victims.equations.network import Network
from victims.equations.stationarity import layer_residuals, relative_residual
from victims.spec import ConvSpec

M = 5


def network(generator: torch.Generator, outputs: int) -> Network:
    """Two hidden layers, a bias in the first."""
    shapes = ((9, 7), (8, 9), (outputs, 8))
    weights = tuple(torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return Network(weights, (torch.randn(9, generator=generator, dtype=torch.float64), None, None))


@pytest.mark.parametrize("outputs", [1, 3])
def test_both_residuals_agree(outputs: int) -> None:
    generator = torch.Generator().manual_seed(2)
    net, layers = network(generator, outputs), (1.0, 0.5, 0.2)
    x = torch.randn(M, 7, generator=generator, dtype=torch.float64)
    labels, start = torch.arange(M) % max(outputs, 2), torch.rand(M, generator=generator, dtype=torch.float64)
    found = []
    for residual in (StationarityResidual(net, Weighting.uniform(net, layers)), AutodiffResidual(net, layers)):
        coefficients = margin_coefficients(labels, start)
        value, gradient = residual(x, coefficients.at, 2.3)
        found.append([value, gradient, coefficients.variables[0].grad])
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("channels", "outputs"), [(3, 1), (3, 3), ((3, 4), 1), ((3, 4), 3)])
def test_the_residual_of_convolutions_is_that_of_the_victim(channels: int | tuple[int, ...], outputs: int) -> None:
    """With gates as sharp as the ReLU's, theta - sum_ij c_ij grad Phi_j(x_i) of the network that is attacked."""
    generator = torch.Generator().manual_seed(4)
    spec = ConvSpec(kernel=2, channels=channels, hidden=(5,), outputs=outputs, first_layer_scale=None)
    model = build(spec, (2, 4, 5), generator, torch.float64)
    net = Network.of(model.state_dict(), (2, 4, 5), torch.device("cpu"), torch.float64)
    x = torch.randn(M, 40, generator=generator, dtype=torch.float64)
    c = torch.randn(M, outputs, generator=generator, dtype=torch.float64)
    values = model(x.view(M, 2, 4, 5)).view(M, outputs)
    for layer, square in zip(model.layers, layer_residuals(net, x, lambda out: c, smooth_gate(1e6)), strict=True):
        parameters = list(layer.parameters())
        gradients = torch.autograd.grad(values, parameters, c, retain_graph=True)
        expected = sum((p.detach() - g).square().sum() for p, g in zip(parameters, gradients, strict=True))
        torch.testing.assert_close(square.detach(), expected)


def test_the_relative_residual_is_that_of_layer_1_with_the_true_relu() -> None:
    generator = torch.Generator().manual_seed(6)
    net = network(generator, 3)
    x, c = (torch.randn(M, k, generator=generator, dtype=torch.float64) for k in (7, 3))
    first, _, _ = layer_residuals(net, x, lambda out: c, torch.relu)
    expected = (first / net.layer_square_norms()[0]).sqrt().detach()
    torch.testing.assert_close(relative_residual(net, x, lambda out: c), expected)
    assert float(relative_residual(net, x, torch.zeros_like)) == 1.0, "nothing is explained"
