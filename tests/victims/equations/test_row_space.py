"""The gap in the spectrum of W1, and what lies above it."""

from __future__ import annotations

import math

import pytest
import torch

from victims.equations.row_space import data_rank, row_space


@pytest.mark.parametrize(("h", "d", "rank"), [(200, 400, 30), (400, 150, 20), (300, 300, 50), (200, 400, 0)])
def test_rank_of_a_planted_signal(h: int, d: int, rank: int) -> None:
    generator = torch.Generator().manual_seed(h + d)
    noise = 1e-4 * torch.randn(h, d, generator=generator)
    signal = torch.randn(h, rank, generator=generator) @ torch.randn(rank, d, generator=generator) / math.sqrt(h)
    singular = torch.linalg.svdvals((signal + noise).double())
    assert data_rank(singular, h, d) == rank


def test_no_gap_means_the_whole_row_space() -> None:
    """A spectrum that falls slowly to its end shows no noise floor: every direction may hold data."""
    u, _ = torch.linalg.qr(torch.randn(60, 30, generator=torch.Generator().manual_seed(0)))
    v, _ = torch.linalg.qr(torch.randn(40, 30, generator=torch.Generator().manual_seed(1)))
    weight = u @ torch.diag(torch.logspace(0, -2, 30)) @ v.T
    space = row_space(weight[:30])
    assert not space.gap
    assert space.singular.tolist() == [1] * 30
    torch.testing.assert_close(weight[:30] @ space.basis @ space.basis.T, weight[:30], atol=1e-5, rtol=0)


def test_a_tail_that_ends_in_nothing_is_no_noise() -> None:
    """A neuron that died has no initialisation left: all directions but one are the data's, however slowly they fall.

    The top of the tail alone would fit a Gaussian matrix; its bottom does not, which has a floor.
    """
    generator = torch.Generator().manual_seed(0)
    u, v = (torch.linalg.qr(torch.randn(k, 100, generator=generator, dtype=torch.float64)).Q for k in (100, 400))
    weight = u @ torch.diag(torch.logspace(0, -1, 100, dtype=torch.float64)) @ v.T
    weight[3] = 0
    assert data_rank(torch.linalg.svdvals(weight), *weight.shape) == 99


@pytest.mark.parametrize("seed", range(5))
def test_where_decay_has_left_the_data_alone_the_gap_is_down_to_the_rounding(seed: int) -> None:
    """The data's part may fall by six orders of magnitude, and neurons may differ in size, as in a trained network."""
    generator = torch.Generator().manual_seed(seed)
    u, _ = torch.linalg.qr(torch.randn(80, 20, generator=generator, dtype=torch.float64))
    v, _ = torch.linalg.qr(torch.randn(120, 20, generator=generator, dtype=torch.float64))
    signal = (
        torch.logspace(0, -2, 80, dtype=torch.float64)[:, None] * u @ torch.diag(torch.logspace(0, -5, 20)).double()
    )
    weight = (signal @ v.T).float()
    space = row_space(weight)
    assert space.gap
    assert space.rank == 20
    cosines = torch.linalg.svdvals(space.basis.double().T @ v)
    assert float(cosines.min()) > 0.99


@pytest.mark.parametrize(("height", "rank"), [(1.05, 0), (1.2, 1)])
def test_what_stands_a_tenth_above_the_edge_of_the_noise_belongs_to_the_data(height: float, rank: int) -> None:
    noise = torch.linalg.svdvals(torch.randn(300, 200, generator=torch.Generator().manual_seed(0)).double())
    noise[0] = height * (math.sqrt(300) + math.sqrt(200))
    assert data_rank(noise, 300, 200) == rank


def test_a_direction_a_little_above_the_rounding_belongs_to_the_data() -> None:
    generator = torch.Generator().manual_seed(0)
    u, v = (torch.linalg.qr(torch.randn(size, 20, generator=generator).double()).Q for size in (80, 120))
    weight = (u @ torch.diag(torch.logspace(0, -6.3, 20)).double() @ v.T).float()
    assert row_space(weight).rank == 20


def test_a_network_that_has_learnt_nothing_shows_no_direction() -> None:
    space = row_space(1e-4 * torch.randn(60, 100, generator=torch.Generator().manual_seed(0)))
    assert not space.gap
    assert space.rank == 60


def test_candidates_of_the_row_space_span_the_data() -> None:
    generator = torch.Generator().manual_seed(3)
    data = torch.randn(12, 100, generator=generator)
    weight = torch.randn(80, 12, generator=generator) @ data + 1e-4 * torch.randn(80, 100, generator=generator)
    space = row_space(weight)
    assert space.rank == 12
    projected = data @ space.basis @ space.basis.T
    assert float((projected - data).norm() / data.norm()) < 1e-3
