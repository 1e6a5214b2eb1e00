"""One training step at n = 500 on CIFAR's shape: in the span of the data and on pixels; not run by default."""

from __future__ import annotations

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from victims.equations.architectures import build
from victims.spec import GradientDescent, MLPSpec, NormalizedDescent, VictimSpec
from victims.training.loop import algorithm
from victims.training.state import TrainState

N, D = 500, 3072
RECIPES: dict[str, NormalizedDescent | GradientDescent] = {
    "normalized": NormalizedDescent(),
    "gd": GradientDescent(),
    "sgd50": GradientDescent(batch_size=50),
}


@pytest.mark.parametrize("width", [N, D], ids=["span", "pixels"])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.benchmark(group="one training step, n=500")
def test_training_step(benchmark: BenchmarkFixture, recipe: str, width: int) -> None:
    training = RECIPES[recipe]
    dtype = getattr(torch, training.dtype)
    generator = torch.Generator().manual_seed(0)
    inputs, labels = (
        torch.randn(N, width, generator=generator).to(dtype),
        torch.tensor([1, 0]).repeat(N // 2),
    )
    state = TrainState(build(MLPSpec(), (width,), generator, dtype), 0.0, torch.ones((), dtype=dtype))
    spec = VictimSpec(name="benchmark-mlp-500", dataset="none", n=N, training=training)
    method = algorithm(spec)
    method.start(state)
    benchmark.pedantic(lambda: method.step(state, inputs, labels), rounds=10, iterations=1, warmup_rounds=2)
