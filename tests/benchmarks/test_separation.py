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
from torch import Tensor

from attacks.independent_components.responses import ScaleMixture
from attacks.optimisation.relative import descended
from victims.training.hardware import Products, products_in

IMAGES, CHANNELS, RESPONSES = 500, 3, 21_600
STEPS = 5
"""A call takes so many, and computes cost and score once more to begin."""
GROUP = f"{STEPS} steps of a descent, {IMAGES} images of 32 x 32 pixels"


@pytest.fixture(scope="module")
def rows() -> Tensor:
    """Return white rows (r, T): in all channels of a place of one size, which changes from place to place."""
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randn(IMAGES, 1, RESPONSES // CHANNELS, generator=generator).exp()
    drawn = (sizes * torch.randn(IMAGES, CHANNELS, RESPONSES // CHANNELS, generator=generator)).flatten(1)
    mixed = torch.randn(IMAGES, IMAGES, generator=generator) @ drawn
    left, _, right = torch.linalg.svd(mixed, full_matrices=False)
    white: Tensor = left @ right * RESPONSES**0.5
    return white


def timed(benchmark: BenchmarkFixture, call: Any, *arguments: Any) -> None:
    benchmark.pedantic(call, arguments, rounds=3, warmup_rounds=1)


@pytest.mark.benchmark(group=GROUP)
def test_annealed(benchmark: BenchmarkFixture, rows: Tensor) -> None:
    timed(benchmark, descended, ScaleMixture(CHANNELS, 0.1), rows, torch.eye(IMAGES), STEPS)


@pytest.mark.benchmark(group=GROUP)
def test_picard(benchmark: BenchmarkFixture, rows: Tensor) -> None:
    double = rows.double().numpy()

    def descend() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picard(double, ortho=False, whiten=False, centering=False, max_iter=STEPS, w_init=torch.eye(IMAGES).numpy())

    timed(benchmark, descend)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.benchmark(group=GROUP)
def test_its_products(benchmark: BenchmarkFixture, rows: Tensor, precision: Products) -> None:
    """The gradient's product and the step's, alone."""
    step = torch.eye(IMAGES)

    def multiply() -> None:
        with products_in(precision):
            for _ in range(STEPS):
                rows @ rows.T
                step @ rows

    timed(benchmark, multiply)
