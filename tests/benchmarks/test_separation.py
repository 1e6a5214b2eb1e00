"""One step of the annealed descent of `cocktail-party` on 500 images, beside its two products alone and python-picard.

Not run by default: python -m pytest -o addopts= tests/benchmarks/test_separation.py
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from picard import picard
from pytest_benchmark.fixture import BenchmarkFixture

from attacks.source_separation.density import ScaleMixture
from attacks.source_separation.filter_bank import filtered
from attacks.source_separation.mixed import Mixed, by_themselves
from attacks.source_separation.relative import REFRESH, descended
from attacks.source_separation.unmixing import whitening_of
from victims.training.hardware import Products, products_in

IMAGES, CHANNELS, SIDE = 500, 3, 32
STEPS = REFRESH
"""A call takes so many, computes the preconditioner once, and cost and score once more to begin."""
GROUP = f"{STEPS} steps of a descent, {IMAGES} images of 32 x 32 pixels"


@pytest.fixture(scope="module")
def mixed() -> Mixed:
    """Return white mixtures of pictures that are flat but for edges, which lie at one place in all channels."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randn(IMAGES, 1, SIDE, SIDE, generator=generator).exp()
    pictures = (sizes * torch.randn(IMAGES, CHANNELS, SIDE, SIDE, generator=generator)).cumsum(2).cumsum(3)
    drawn = filtered((torch.randn(IMAGES, IMAGES, generator=generator) @ pictures.flatten(1)).view_as(pictures))
    return drawn.by(whitening_of(drawn.responses()))


def timed(benchmark: BenchmarkFixture, call: Any, *arguments: Any) -> None:
    benchmark.pedantic(call, arguments, rounds=3, warmup_rounds=1)


@pytest.mark.benchmark(group=GROUP)
def test_annealed(benchmark: BenchmarkFixture, mixed: Mixed) -> None:
    timed(benchmark, descended, ScaleMixture(CHANNELS, 0.1), mixed, torch.eye(IMAGES), STEPS)


@pytest.mark.benchmark(group=GROUP)
def test_annealed_on_responses(benchmark: BenchmarkFixture, mixed: Mixed) -> None:
    """The same on rows that are seven times as long."""
    apart = by_themselves(mixed.responses(), CHANNELS)
    timed(benchmark, descended, ScaleMixture(CHANNELS, 0.1), apart, torch.eye(IMAGES), STEPS)


@pytest.mark.benchmark(group=GROUP)
def test_picard(benchmark: BenchmarkFixture, mixed: Mixed) -> None:
    double = mixed.responses().double().numpy()

    def descend() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picard(double, ortho=False, whiten=False, centering=False, max_iter=STEPS, w_init=torch.eye(IMAGES).numpy())

    timed(benchmark, descend)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.benchmark(group=GROUP)
def test_its_products(benchmark: BenchmarkFixture, mixed: Mixed, precision: Products) -> None:
    """The gradient's product and the step's, alone."""
    step, rows = torch.eye(IMAGES), mixed.rows

    def multiply() -> None:
        with products_in(precision):
            for _ in range(STEPS):
                rows @ rows.T
                step @ rows

    timed(benchmark, multiply)
