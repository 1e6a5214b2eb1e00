"""One step of the published loop against one of ours, at n = 500, m = 1000, D-1000-1000-1; restarts in a batch.

Not run by default: python -m pytest -o addopts= tests/benchmarks/test_step.py --benchmark-json benchmark.json
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from autodiff import AutodiffResidual
from pytest_benchmark.fixture import BenchmarkFixture

from attacks.kkt_family.coefficients import margin_coefficients
from attacks.kkt_family.params import SearchParams
from attacks.kkt_family.problem import Problem
from attacks.kkt_family.published import published_loss, published_penalties
from attacks.kkt_family.search import Start, search
from victims.equations.adjoint import StationarityResidual, Weighting
from victims.equations.network import Network
from victims.equations.row_space import CosineSpace, RowSpace
from victims.equations.spans import SpanPenalty, Spans

D, H, M, RANK = 3072, 1000, 1000, 458


def network(d: int, dtype: torch.dtype) -> Network:
    generator = torch.Generator().manual_seed(0)
    weights = tuple(torch.randn(b, a, generator=generator).to(dtype) / a**0.5 for a, b in ((d, H), (H, H), (H, 1)))
    return Network(weights, (torch.randn(H, generator=generator).to(dtype), None, None))


def published_step(dtype: torch.dtype) -> Callable[[], None]:
    net, generator = network(D, dtype), torch.Generator().manual_seed(1)
    inputs = (0.1 * torch.randn(M, D, generator=generator)).to(dtype).requires_grad_()
    multipliers = torch.rand(M, generator=generator).to(dtype).requires_grad_()
    signs = torch.ones(M, dtype=dtype)
    optimizer = torch.optim.SGD([inputs, multipliers], lr=1e-6, momentum=0.9)

    def step() -> None:
        loss = published_loss(net, inputs, lambda outputs: (multipliers * signs)[:, None], 20.0)
        objective = loss + published_penalties(inputs, multipliers, 0.5)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(objective, inputs=[inputs, multipliers])
        optimizer.step()

    return step


def default_step(layers: tuple[float, ...], autograd: bool = False, paid: bool = False) -> Callable[[], None]:
    net, generator = network(RANK, torch.float32), torch.Generator().manual_seed(1)
    span = SpanPenalty(torch.linalg.qr(net.weights[0]).Q, 0.01)
    spans = Spans(span, span) if paid else None
    analytic = StationarityResidual(net, Weighting.uniform(net, layers), spans=spans)
    residual = AutodiffResidual(net, layers) if autograd else analytic
    coordinates = (0.1 * torch.randn(M, RANK, generator=generator)).requires_grad_()
    multipliers = torch.rand(M, generator=generator).requires_grad_()
    optimizer = torch.optim.Adam([coordinates, multipliers], lr=1e-6)

    def step() -> None:
        multipliers.grad = None
        with torch.no_grad():
            _, coordinates.grad = residual(coordinates.detach(), lambda outputs: multipliers[:, None], 100.0)
        optimizer.step()

    return step


STEPS = {
    "paper, float64": lambda: published_step(torch.float64),
    "paper, float32": lambda: published_step(torch.float32),
    "default": lambda: default_step((1.0, 0.0, 0.0)),
    "default, with both spans": lambda: default_step((1.0, 0.0, 0.0), paid=True),
    "default, all layers": lambda: default_step((1.0, 1.0, 1.0)),
    "default, all layers, by autograd": lambda: default_step((1.0, 1.0, 1.0), autograd=True),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.benchmark(group="one attack step, n=500, m=1000")
def test_attack_step(benchmark: BenchmarkFixture, name: str) -> None:
    benchmark.pedantic(STEPS[name](), rounds=5, iterations=1, warmup_rounds=1)


@pytest.mark.benchmark(group="the matrix-product floor of a default step")
def test_five_products(benchmark: BenchmarkFixture) -> None:
    """The products of one default step alone: 6 with W1's shape or the residual's, 4 with W2's."""
    generator = torch.Generator().manual_seed(0)
    x, w1 = torch.randn(M, RANK, generator=generator), torch.randn(H, RANK, generator=generator)
    a, w2 = torch.randn(M, H, generator=generator), torch.randn(H, H, generator=generator)

    def products() -> None:
        for _ in range(3):
            x @ w1.T
        for _ in range(3):
            a @ w1
        for _ in range(4):
            a @ w2

    benchmark.pedantic(products, rounds=5, iterations=1, warmup_rounds=1)


def restarts(batch: int) -> Callable[[], None]:
    """Eight restarts of five steps on a small victim (n = 50, m = 100), so many in a batch."""
    generator = torch.Generator().manual_seed(1)
    problem = Problem(network(50, torch.float32), RowSpace(torch.eye(50), torch.ones(50), gap=True))
    labels, params = torch.arange(100) % 2, SearchParams(steps=5)

    def run() -> None:
        for _ in range(8 // batch):
            starts = [
                Start(torch.randn(100, 50, generator=generator), margin_coefficients(labels, torch.full((100,), 0.01)))
                for _ in range(batch)
            ]
            search(problem, starts, params, lambda step, candidates: None)

    return run


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.benchmark(group="eight restarts at n=50")
def test_restarts_in_one_batch(benchmark: BenchmarkFixture, batch: int) -> None:
    benchmark.pedantic(restarts(batch), rounds=5, iterations=1, warmup_rounds=1)


def on_cosines(dense: bool) -> Callable[[], None]:
    """A step's features of 300 images of 32 x 32 behind conv(3, 32), and their gradient by the coordinates."""
    generator = torch.Generator().manual_seed(0)
    filters, bias = torch.randn(32, 3, 3, 3, generator=generator), torch.randn(32, generator=generator)
    net = Network((filters, torch.zeros(1, 32 * 30 * 30)), (bias, None), (3, 32, 32))
    space = CosineSpace.of((3, 32, 32), filters)
    basis = space.inputs(torch.eye(D)).T
    coordinates = torch.randn(300, D, generator=generator).requires_grad_()

    def step() -> None:
        images = coordinates @ basis.T if dense else space.inputs(coordinates)
        torch.autograd.grad(net.features(images).sum(), coordinates)

    return step


@pytest.mark.parametrize("dense", [True, False], ids=["by a basis of all cosines", "axis by axis"])
@pytest.mark.benchmark(group="features of 300 images on cosines, forward and back")
def test_images_on_cosines(benchmark: BenchmarkFixture, dense: bool) -> None:
    benchmark.pedantic(on_cosines(dense), rounds=5, iterations=1, warmup_rounds=1)
