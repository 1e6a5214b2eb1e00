"""The price of images that are not smooth, behind a convolution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy.fft import dctn
from torch import Tensor

from attacks.kkt_family.coefficients import random_coefficients
from attacks.kkt_family.params import SearchParams
from attacks.kkt_family.problem import Problem
from attacks.kkt_family.search import Start, search
from attacks.optimisation.one_cycle import OneCycle
from victims.equations.network import Network
from victims.equations.row_space import CHANNEL_SIZES, CosineSpace, row_span

SHAPE, M, PRICE = (3, 6, 5), 4, 0.7


def drawn(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def problem() -> Problem:
    generator = torch.Generator().manual_seed(0)
    weights = drawn(generator, 2, 3, 2, 2), drawn(generator, 9, 2 * 5 * 4), drawn(generator, 1, 9)
    network = Network(weights, (None,) * 3, SHAPE)
    return Problem(network, CosineSpace.of(SHAPE, weights[0]), row_span(weights[1]))


def price_of(images: Tensor) -> float:
    """The mean square of an image's cosines, each relative to the amplitude that natural images have there."""
    rows, columns = np.arange(SHAPE[1])[:, None], np.arange(SHAPE[2])
    natural = np.array(CHANNEL_SIZES)[:, None, None] / (1 + np.hypot(rows, columns))
    natural = natural / np.sqrt((natural**2).mean())
    cosines = dctn(images.reshape(-1, *SHAPE).numpy(), axes=(1, 2, 3), norm="ortho")
    return float(((cosines / natural) ** 2).mean((1, 2, 3)).sum())


@pytest.mark.parametrize("rates", [None, (1.0, 0.2, 3.0, 0.5)], ids=["one rate", "a rate for each"])
@pytest.mark.parametrize("power", [0.0, 1.0, 1.8])
def test_the_search_pays_for_each_cosine(
    monkeypatch: pytest.MonkeyPatch, power: float, rates: Sequence[float] | None
) -> None:
    """The slopes with and without the price differ by the price's own, here by central differences in pixels."""
    generator = torch.Generator().manual_seed(1)
    asked, start = problem(), drawn(generator, M, 90)
    slopes: list[Tensor] = []
    monkeypatch.setattr(OneCycle, "step", lambda cycle: slopes.append(cycle._variables[0].grad.clone()))
    for smoothness in (0.0, PRICE):
        coefficients = random_coefficients(asked.connected.weights[0], 1, M, torch.Generator().manual_seed(2))
        begun = Start(start, coefficients, None if rates is None else torch.tensor(rates, dtype=torch.float64))
        params = SearchParams(steps=1, coordinate_power=power, smoothness=smoothness, dtype="float64")
        search(asked, [begun], params, lambda step, found: None)
    paid = (slopes[1] - slopes[0])[0]

    scale = (asked.space.singular / asked.space.singular.square().mean().sqrt()) ** power
    step = 1e-4
    for candidate, entry in ((0, 0), (1, 37), (3, 89)):
        moved = torch.zeros_like(start)
        moved[candidate, entry] = step
        up, down = (price_of(asked.space.inputs((start + sign * moved) * scale)) for sign in (1, -1))
        expected = PRICE * (up - down) / (2 * step) * (1 if rates is None else rates[candidate])
        assert float(paid[candidate, entry]) == pytest.approx(expected, rel=1e-5)
