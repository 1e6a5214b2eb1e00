"""The smoothest of all images that differ along known rows, and where directions are no images any more."""

from __future__ import annotations

import pytest
import torch
from attacking import sgd_network, victim_of
from torch import Tensor

from attacks.unknown_start.adapter import Apart
from attacks.unknown_start.smoothness import SHORT, smooth_directions, smoothest
from victims.equations.network import Network
from victims.ordinary.difference import Difference

SHAPE = (3, 32, 32)


@pytest.fixture(scope="module")
def photos() -> Tensor:
    victim = victim_of(sgd_network("photos", 20, (5,), lr=0.01, batch_size=20, epochs=1))
    return torch.as_tensor(victim.split.inputs).flatten(1).double()


def noise(rows: int, seed: int) -> Tensor:
    return torch.randn(rows, 3072, generator=torch.Generator().manual_seed(1000 + seed), dtype=torch.float64)


def roughness(rows: Tensor) -> Tensor:
    pictures = rows.unflatten(1, SHAPE)
    steps = sum(pictures.diff(dim=axis).square().sum() for axis in (2, 3))
    return steps + SHORT * pictures.square().sum()


def test_no_step_along_the_lost_rows_is_smoother(photos: Tensor) -> None:
    lost, steps = noise(40, 0), torch.zeros(20, 40, dtype=torch.float64, requires_grad=True)
    filled = smoothest(photos, lost, SHAPE)
    cost = roughness(filled + steps @ lost)
    cost.backward()
    assert steps.grad is not None
    assert float(steps.grad.abs().max()) < 1e-9 * float(cost.detach())
    assert float((filled - photos).abs().max()) > 1e-3


def test_what_is_lost_says_nothing_and_is_filled_in(photos: Tensor) -> None:
    lost = noise(40, 0)
    mixed = photos + noise(20, 1)[:, :40] @ lost
    filled, off = smoothest(mixed, lost, SHAPE), smoothest(mixed, lost, None)
    torch.testing.assert_close(filled, smoothest(photos, lost, SHAPE))
    basis = torch.linalg.qr(lost.T).Q
    assert torch.equal(off, mixed - mixed @ basis @ basis.T)
    missed = [float((images - photos).norm() / photos.norm()) for images in (filled, off)]
    assert missed[0] < missed[1] / 3
    assert float(smoothest(lost, lost, SHAPE).abs().max()) < 1e-12 * float(lost.abs().max())


def test_directions_are_images_up_to_the_last_smooth_one(photos: Tensor) -> None:
    smooth, rough = torch.linalg.svd(photos, full_matrices=False).Vh[:5], noise(5, 2)
    assert smooth_directions(torch.cat([smooth, rough]), SHAPE) == 5
    assert smooth_directions(torch.cat([smooth[:2], rough[:1], smooth[2:3], rough]), SHAPE) == 4
    assert smooth_directions(rough, SHAPE) == 1


def test_neighbours_count_down_and_along() -> None:
    """Stripes are alike in one direction and opposite in the other."""
    stripes = torch.ones(3, 8, 8, dtype=torch.float64) * torch.tensor([1.0, -1.0]).repeat(4).double()
    flat = torch.ones_like(stripes)
    for one in (stripes, stripes.mT):
        assert smooth_directions(torch.stack([flat, one]).flatten(1), (3, 8, 8)) == 1
    assert smooth_directions(torch.stack([stripes, flat]).flatten(1), (3, 8, 8)) == 2


@pytest.mark.parametrize(
    ("alike", "shape", "images", "searched", "how"),
    [
        (True, SHAPE, None, 5, "smooth"),
        (True, SHAPE, 7, 7, ""),
        (True, SHAPE, 12, 8, ""),
        (True, None, None, 8, ""),
        (False, SHAPE, None, 8, ""),
    ],
)
def test_directions_end_at_noise_where_all_entries_moved_alike(
    photos: Tensor, alike: bool, shape: tuple[int, int, int] | None, images: int | None, searched: int, how: str
) -> None:
    """Of an update of rank 8, whose difference has 10 directions before a gap, five are smooth."""
    smooth = torch.linalg.svd(photos, full_matrices=False).Vh[:5]
    found = Difference(1.0, torch.ones(60), torch.cat([smooth, noise(55, 2)]), 10, 50.0, 0.0, 60)
    up = torch.rand(60, 8, generator=torch.Generator().manual_seed(1000)) - 0.5
    apart = Apart(Network((torch.zeros(60, 3072),), (None,)), 8, up if alike else up**5, shape)
    rank, told = apart.directions(found, images)
    assert rank == searched
    assert how in told
    assert bool(told) == bool(how)
