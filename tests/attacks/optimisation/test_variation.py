"""Total variation by hand on small pictures, and what it tells apart."""

from __future__ import annotations

import pytest
import torch

from attacks.optimisation.variation import relative_variation


def test_an_edge_costs_its_length_times_its_height() -> None:
    """Over the last row and column no difference is taken, so that an edge of eight pixels counts seven."""
    picture = torch.zeros(2, 1, 8, 8, dtype=torch.float64)
    picture[0, :, :, 4:] = 3
    picture[1, :, 2:] = -5
    size = torch.tensor([4 * 8 * 9, 6 * 8 * 25]).double().div(64).sqrt()
    expected = torch.tensor([3.0, 5.0]).double() * 7 / 64 / size
    # a flat pixel adds the root of FLAT
    torch.testing.assert_close(relative_variation(picture), expected, atol=1e-4 * 64**0.5, rtol=0)
    torch.testing.assert_close(relative_variation(7 * picture), relative_variation(picture))


def test_a_corner_costs_the_length_of_its_gradient() -> None:
    picture = torch.zeros(1, 1, 3, 3, dtype=torch.float64)
    picture[0, 0, 0, 0] = 1
    expected = 2**0.5 / 9 / (1 / 9) ** 0.5
    assert float(relative_variation(picture)) == pytest.approx(expected, abs=1e-3)


def test_edges_of_several_channels_cost_less_where_they_meet() -> None:
    meeting, apart = torch.zeros(2, 1, 3, 8, 8, dtype=torch.float64)
    meeting[:, :, :, 4:] = 1
    for channel, column in enumerate((2, 4, 6)):
        apart[:, channel, :, column:] = 1
    sizes = (picture.square().mean().sqrt() for picture in (meeting, apart))
    costs = [
        float(relative_variation(picture)) * float(size) for picture, size in zip((meeting, apart), sizes, strict=True)
    ]
    assert costs[0] == pytest.approx(costs[1] / 3**0.5, abs=1e-3)


def test_a_mixture_costs_more_than_each_of_two_pictures() -> None:
    one, other = torch.zeros(2, 1, 1, 16, 16, dtype=torch.float64)
    one[:, :, :8], other[:, :, :, 8:] = 1, 1
    costs = [float(relative_variation(picture)) for picture in (one, other, one - other)]
    assert max(costs[:2]) < 0.9 * costs[2]


def test_a_row_of_a_table_has_none() -> None:
    row = torch.arange(1.0, 6.0, requires_grad=True)
    (variation,) = relative_variation(row.view(1, 1, 1, 5))
    variation.backward()
    assert float(variation) == 0
    assert row.grad is not None
    assert not row.grad.any()
