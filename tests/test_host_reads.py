"""No step of a training or an attack waits for the host: tensors are read in the reports alone.

On a GPU every such read (`.item()`, `float`, `bool`, a mask as an index) stalls the device. Counted on the CPU, where
the same operations are dispatched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attacks.kkt_family.coefficients import Coefficients, free_coefficients, margin_coefficients
from attacks.kkt_family.params import SearchParams
from attacks.kkt_family.problem import Problem
from attacks.kkt_family.published import published_search
from attacks.kkt_family.search import Start, search
from victims.equations.architectures import build
from victims.equations.network import Network
from victims.equations.row_space import row_space
from victims.spec import GradientDescent, MLPSpec, NormalizedDescent, VictimSpec
from victims.training.hardware import prepare
from victims.training.loop import algorithm
from victims.training.state import TrainState

READS = ("_local_scalar_dense", "nonzero", "masked_select")
M, D = 6, 12


class HostReads(TorchDispatchMode):
    """Counts the operations whose result the host has to wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.split(".")[0]
        masked = name == "index" and any(index is not None and index.dtype == torch.bool for index in args[1])
        if name in READS or masked:
            self.count[name] += 1
        return func(*args, **(kwargs or {}))


def reads(of: Callable[[int], object], steps: int) -> int:
    """Return how many reads more twice the steps cost."""
    counted = []
    for count in (steps, 2 * steps):
        with HostReads() as mode:
            of(count)
        counted.append(sum(mode.count.values()))
    return counted[1] - counted[0]


def test_the_counter_counts() -> None:
    with HostReads() as mode:
        x = torch.ones(3)
        float(x.sum())
        bool((x > 0).all())
        x[x > 0].sum()
        x.sum().item()
    assert sum(mode.count.values()) == 4


def network(outputs: int = 1) -> Network:
    generator = torch.Generator().manual_seed(0)
    weights = tuple(torch.randn(b, a, generator=generator) for a, b in ((D, 16), (16, 8), (8, outputs)))
    return Network(weights, (torch.randn(16, generator=generator), None, None))


def multipliers(rivals: Any = "all", *, positive: bool = True) -> Coefficients:
    return margin_coefficients(torch.arange(M) % 2, torch.full((M,), 0.5), rivals, positive=positive)


SEARCHES: dict[str, tuple[Callable[[], Network], Callable[[], Coefficients]]] = {
    "kkt": (network, multipliers),
    "kkt-general": (lambda: network(3), lambda: free_coefficients(torch.ones(M, 3))),
}


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("solver", ["fast", "published"])
def test_no_step_of_an_attack_waits_for_the_host(name: str, solver: str) -> None:
    make, coefficients = SEARCHES[name]
    net, generator = make(), torch.Generator().manual_seed(0)
    first = net.weights[0]
    space = replace(row_space(first), gap=True)
    layers = (1.0,) * net.depth
    settings = {"lr": 1e-3, "lambda_lr": 1e-3, "alpha": 10.0}

    def fast(steps: int) -> None:
        powers = {"coordinate_power": 0.5, "residual_power": 0.3, "neuron_power": 1.0}
        costs = {"sparsity": 0.05, "signal_span": 0.1}
        chosen = SearchParams(steps=steps, layer_weights=layers, **settings, **powers, **costs)
        starts = [Start(torch.randn(M, space.rank, generator=generator), coefficients()) for _ in range(2)]
        search(Problem(net, space), starts, chosen, lambda step, candidates: None)

    def published(steps: int) -> None:
        published_search(
            net,
            coefficients(),
            M,
            steps=steps,
            lambda_min=0.1,
            init_scale=0.1,
            generator=generator,
            report=lambda step, candidates: None,
            **settings,
        )

    adams_own = 3 * 30 if solver == "fast" else 0  # its step counters, which are on the host on every device
    assert reads(fast if solver == "fast" else published, 30) == adams_own


TRAININGS = {
    "normalized": (NormalizedDescent(), 1),
    "normalized, three classes": (NormalizedDescent(), 3),
    "gradient descent": (GradientDescent(), 1),
    "mini-batches": (GradientDescent(batch_size=2), 1),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_no_step_of_a_training_waits_for_the_host(name: str) -> None:
    """The decayed recipe does, twice a step: it searches its scale on the host."""
    training, outputs = TRAININGS[name]
    dtype = getattr(torch, training.dtype)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(6, D, generator=generator, dtype=dtype)
    labels = torch.arange(6) % max(outputs, 2)
    spec = VictimSpec(
        name="test-mlp-6", dataset="none", n=6, architecture=MLPSpec(hidden=(8, 8), outputs=outputs), training=training
    )

    def train(steps: int) -> None:
        model = build(spec.architecture, (D,), torch.Generator().manual_seed(0), dtype)
        state = TrainState(model, 0.0, torch.ones((), dtype=dtype))
        method = algorithm(spec)
        method.start(state)
        for _ in range(steps):
            method.step(state, inputs, labels)
            state.step += 1

    assert reads(train, 30) == 0


def test_products_are_not_rounded() -> None:
    before = torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32
    try:
        torch.set_float32_matmul_precision("medium")
        prepare(torch.device("cpu"))
        assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.backends.cuda.matmul.allow_tf32
        assert not torch.backends.cudnn.allow_tf32
    finally:
        torch.set_float32_matmul_precision(before[0])
