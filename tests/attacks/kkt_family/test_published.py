"""The published loss, against the residual of the fast solver."""

from __future__ import annotations

import pytest
import torch

from attacks.kkt_family.coefficients import margin_coefficients
from attacks.kkt_family.published import published_loss, published_penalties
from victims.equations.adjoint import StationarityResidual, Weighting
from victims.equations.network import Network

M = 5


def network(generator: torch.Generator, outputs: int) -> Network:
    """Two hidden layers, a bias in the first."""
    shapes = ((9, 7), (8, 9), (outputs, 8))
    weights = tuple(torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return Network(weights, (torch.randn(9, generator=generator, dtype=torch.float64), None, None))


def test_published_loss_is_the_unweighted_residual() -> None:
    generator = torch.Generator().manual_seed(1)
    for outputs in (1, 3):
        net = network(generator, outputs)
        x = torch.randn(M, 7, generator=generator, dtype=torch.float64)
        multipliers = torch.rand(M, generator=generator, dtype=torch.float64)
        coefficients = margin_coefficients(torch.tensor([0, 0, 1, 1, 1]), multipliers, "runner-up")
        norms = [float(norm) for norm in net.layer_square_norms()]
        residual = StationarityResidual(net, Weighting.uniform(net, tuple(norms)))
        # the published loss averages over candidates
        value, _ = residual(x, lambda values: coefficients.at(values) / M, 3.0)  # noqa: B023
        torch.testing.assert_close(value, published_loss(net, x, coefficients.at, 3.0).detach())


def test_pixels_beyond_the_box_and_multipliers_below_the_floor_cost_their_squares() -> None:
    """Once the excess of a pixel, and five times the lack of a multiplier (the authors' code)."""
    inputs, multipliers = torch.tensor([[1.5, -2.0, 1.0], [0.3, -1.0, 0.0]]), torch.tensor([0.1, 0.3, -0.2])
    assert float(published_penalties(inputs, multipliers, None)) == 0.5**2 + 1.0**2
    floored = published_penalties(inputs, multipliers, 0.2)
    assert float(floored) == pytest.approx(1.25 + 5 * (0.1**2 + 0.4**2))
