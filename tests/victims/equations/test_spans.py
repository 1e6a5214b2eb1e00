"""What a candidate alone pays for, against autograd and against spans that are known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attacks.kkt_family.coefficients import free_coefficients
from victims.equations.adjoint import StationarityResidual, Weighting
from victims.equations.gates import smooth_gate_relu
from victims.equations.network import Network
from victims.equations.spans import SpanPenalty, Spans, share_outside

D, H, N, OUTPUTS = 60, 40, 12, 3
ALPHA = 3.0


def draw(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def subspace(generator: torch.Generator, h: int, r: int) -> Tensor:
    return torch.linalg.qr(draw(generator, h, r)).Q


def outside(vectors: Tensor, basis: Tensor) -> Tensor:
    """The share of the energy that a least-squares fit leaves."""
    rest = vectors.T - basis @ torch.linalg.lstsq(basis, vectors.T).solution
    return rest.square().sum(0) / vectors.square().sum(1)


def test_the_share_outside_and_its_gradient() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors, basis = draw(generator, 2, 5, H).requires_grad_(), subspace(generator, H, 7)
    span = SpanPenalty(basis, 0.3)
    shares = share_outside(vectors @ basis, vectors)
    torch.testing.assert_close(shares[1], outside(vectors[1].detach(), basis))
    (expected,) = torch.autograd.grad(0.3 * shares.sum(), vectors)
    torch.testing.assert_close(span.gradient(vectors.detach()), expected)
    inside = draw(generator, 4, 7) @ basis.T
    assert float(share_outside(inside @ basis, inside).abs().max()) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_dead_candidate_is_left_alone(dtype: torch.dtype) -> None:
    span = SpanPenalty(subspace(torch.Generator().manual_seed(0), H, 7).to(dtype), 10.0)
    assert not span.gradient(torch.zeros(1, H, dtype=dtype)).any(), "neither moved nor NaN"


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("layers", [(1.0, 0.0, 0.0), (0.5, 2.0, 1.0)])
def test_the_gradient_of_residual_and_spans_equals_autograd(layers: tuple[float, ...], parts: int) -> None:
    generator = torch.Generator().manual_seed(1)
    net = Network(
        (draw(generator, 9, 7), draw(generator, 8, 9), draw(generator, OUTPUTS, 8)), (draw(generator, 9), None, None)
    )
    spans = Spans(SpanPenalty(subspace(generator, 9, 4), 0.7), SpanPenalty(subspace(generator, 9, 5), 1.9))
    x = draw(generator, 6, 7)
    coefficients = free_coefficients(draw(generator, 6, OUTPUTS))
    weighting = Weighting.uniform(net, layers)
    alone = StationarityResidual(net, weighting)(x, coefficients.at, ALPHA)
    alone_c = [variable.grad for variable in coefficients.variables]
    for variable in coefficients.variables:
        variable.grad = None
    value, gradient = StationarityResidual(net, weighting, parts, spans)(x, coefficients.at, ALPHA)
    torch.testing.assert_close(value, alone[0])

    x.requires_grad_()
    first = torch.nn.functional.linear(x, net.weights[0], net.biases[0])
    activations = smooth_gate_relu(first, ALPHA)
    outputs = smooth_gate_relu(activations @ net.weights[1].T, ALPHA) @ net.weights[2].T
    (errors,) = torch.autograd.grad(outputs, first, coefficients.at(outputs), create_graph=True)
    assert spans.errors is not None
    assert spans.activations is not None
    outer = share_outside(errors @ spans.errors.basis, errors)
    cost = 0.7 * outer.sum() + 1.9 * share_outside(activations @ spans.activations.basis, activations).sum()
    by_x, *by_c = torch.autograd.grad(cost, [x, *coefficients.variables])
    torch.testing.assert_close(gradient - alone[1], by_x, rtol=1e-10, atol=1e-10)
    for whole, without, expected in zip(coefficients.variables, alone_c, by_c, strict=True):
        assert whole.grad is not None
        torch.testing.assert_close(whole.grad - without, expected, rtol=1e-10, atol=1e-10)
