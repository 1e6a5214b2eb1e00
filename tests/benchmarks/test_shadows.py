"""Shadow models of the authors' notebook: a plain loop over torch modules, all at once, and the matrix product alone.

10-ELU MLP on 1,000 fixed points of 784 pixels, 100 full-batch steps. The three times are seconds a model; that of the
matrix product is the floor: the products of layer 1, forwards and backwards, at this machine's own rate. Not run by
default: `OMP_NUM_THREADS=2 python -m pytest -o addopts= tests/benchmarks/test_shadows.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import nn

from victims.informed.networks import initial
from victims.informed.spec import DenseSpec, Descent
from victims.informed.training import train_many

N, D, WIDTH, STEPS, MODELS, PLAIN = 1000, 784, 10, 100, 128, 4
SPEC, TRAINING = DenseSpec(hidden=(WIDTH,)), Descent(lr=0.1, epochs=STEPS)
GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.rand(N + MODELS, 1, 28, 28, generator=GENERATOR)
LABELS = torch.randint(10, (N + MODELS,), generator=GENERATOR)
START = initial(SPEC, (1, 28, 28), GENERATOR)
pytestmark = pytest.mark.benchmark(group="one shadow model, n=1000")


def plain_loop() -> None:
    for extra in range(PLAIN):
        network = nn.Sequential(nn.Flatten(), nn.Linear(D, WIDTH), nn.ELU(), nn.Linear(WIDTH, 10))
        with torch.no_grad():
            for own, given in zip(network.parameters(), START.values(), strict=True):
                own.copy_(given)
        optimizer = torch.optim.SGD(network.parameters(), TRAINING.lr, TRAINING.momentum)
        chosen = torch.cat([torch.arange(N), torch.tensor([N + extra])])
        images, labels = IMAGES[chosen], LABELS[chosen]
        for _ in range(STEPS):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(images), labels).backward()
            optimizer.step()


def all_at_once() -> None:
    fixed, extra = (IMAGES[:N], LABELS[:N]), (IMAGES[N:], LABELS[N:])
    train_many(SPEC, TRAINING, fixed, extra, START, range(MODELS), torch.device("cpu"))


def matrix_product() -> None:
    """As many multiplications as layer 1 of `MODELS` models takes in one step, forwards and backwards."""
    points, weights = IMAGES[:N].flatten(1), START["layers.0.weight"].repeat(MODELS, 1)
    (weights @ points.T) @ points


@pytest.mark.parametrize(
    ("work", "models"),
    [(plain_loop, PLAIN), (all_at_once, MODELS), (matrix_product, MODELS / STEPS)],
    ids=["plain loop", "all at once", "matrix product"],
)
def test_shadow_model(benchmark: BenchmarkFixture, work: Callable[[], None], models: float) -> None:
    benchmark.pedantic(work, rounds=3, iterations=1, warmup_rounds=1)
    if benchmark.stats is not None:
        benchmark.extra_info["seconds_a_model"] = benchmark.stats.stats.median / models
