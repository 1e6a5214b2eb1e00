"""Which candidate reconstructs which training image."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import random_images
from torch import Tensor

from bench.scoring.matching import assign, assign_pairs, in_order, ncc_distance, nearest_neighbours, stretch, vote


@settings(max_examples=50)
@given(
    scale=st.floats(1e-2, 1e2),
    shift=st.floats(-10, 10),
    downscale=st.sampled_from([1.0, 0.5]),
    channels=st.sampled_from([1, 3]),
    seed=st.integers(0, 1000),
)
def test_ncc_distance_ignores_scale_and_offset(
    scale: float, shift: float, downscale: float, channels: int, seed: int
) -> None:
    truth = random_images(3, channels, 8, 8).double()
    candidates = random_images(4, channels, 8, 8, seed=seed).double()
    before = ncc_distance(truth, candidates, downscale)
    torch.testing.assert_close(ncc_distance(truth, scale * candidates + shift, downscale), before, atol=1e-7, rtol=1e-7)


def test_ncc_distance_is_the_authors() -> None:
    truth, candidates = random_images(3, 3, 8, 8), random_images(5, 3, 8, 8, seed=1)

    def normalised(images: Tensor) -> Tensor:
        return (images - images.mean((2, 3), keepdim=True)) / images.std((2, 3), keepdim=True)

    expected = (normalised(truth)[:, None] - normalised(candidates)[None]).square().mean((2, 3, 4))
    torch.testing.assert_close(ncc_distance(truth, candidates), expected.double(), atol=1e-5, rtol=0)


def test_half_resolution_is_bicubic_without_a_filter() -> None:
    """Halfway between pixels Keys' cubic (a = -3/4) weighs the four nearest by -3, 19, 19 and -3 parts of 32."""

    def halved(images: Tensor) -> Tensor:
        weights = torch.tensor([-3.0, 19.0, 19.0, -3.0], dtype=torch.float64) / 32
        kernel = weights.outer(weights).expand(3, 1, 4, 4)
        padded = torch.nn.functional.pad(images.double(), (1, 1, 1, 1), mode="replicate")
        return torch.nn.functional.conv2d(padded, kernel, stride=2, groups=3)

    truth, candidates = random_images(3, 3, 8, 8), random_images(5, 3, 8, 8, seed=1)
    expected = ncc_distance(halved(truth), halved(candidates))
    torch.testing.assert_close(ncc_distance(truth, candidates, 0.5), expected, atol=1e-5, rtol=0)


def test_ncc_distance_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    truth, candidates = random_images(3, 3, 8, 8), random_images(11, 3, 8, 8, seed=1)
    whole, nearest = ncc_distance(truth, candidates), nearest_neighbours(truth, candidates)
    monkeypatch.setattr("bench.scoring.matching._CHUNK", 4)
    torch.testing.assert_close(ncc_distance(truth, candidates), whole)
    torch.testing.assert_close(nearest_neighbours(truth, candidates), nearest)


def test_useless_candidates_are_infinitely_far() -> None:
    truth = random_images(2, 3, 8, 8)
    useless = truth[:1].repeat(6, 1, 1, 1)
    useless[0], useless[1] = 0, 0.1
    useless[2, 0, 0, 0], useless[3, 1, 2, 3], useless[4, 0, 0, 0] = math.nan, math.inf, 1e30
    useless[5] = torch.tensor([0.1, 0.2, 0.3])[:, None, None]
    for downscale in (1.0, 0.5):
        assert (ncc_distance(truth, useless, downscale) == math.inf).all()
    one_flat_channel = truth[:1].clone()
    one_flat_channel[:, 0] = 0.3
    assert ncc_distance(truth, one_flat_channel)[0].item() == pytest.approx(1 / 3, abs=0.01)


def test_a_faint_channel_counts_like_any_other() -> None:
    truth = random_images(2, 3, 8, 8).double()
    faint = truth.clone()
    faint[:, 0] = 0.5 + 1e-4 * faint[:, 0]
    assert ncc_distance(truth, faint).diagonal().tolist() == pytest.approx([0, 0], abs=1e-9)


def test_vote_mean_is_the_average_of_the_near_ones() -> None:
    candidates = random_images(4, 3, 8, 8)
    distance = torch.tensor([[0.109, 0.5, 0.1, 0.111], [math.inf, 0.3, 0.2, 0.21], [math.inf] * 4])
    voted, index, voters = vote(candidates, distance, 1.1)
    torch.testing.assert_close(voted[0], (candidates[0] + candidates[2]) / 2)
    torch.testing.assert_close(voted[1], (candidates[2] + candidates[3]) / 2)
    assert not voted[2].any()
    assert (index.tolist(), voters.tolist()) == ([2, 2, -1], [2, 2, 0])
    nearest, index, voters = vote(candidates, distance, None)
    torch.testing.assert_close(nearest[:2], candidates[[2, 2]])
    assert (index.tolist(), voters.tolist()) == ([2, 2, -1], [1, 1, 0])
    assert vote(candidates[:2], torch.tensor([[1e-6, 2e-6]]), 1.1)[2].tolist() == [1]  # both near, and yet unlike
    with pytest.raises(ValueError, match="above 1"):
        vote(candidates, distance, 1.0)


def test_copies_vote_even_when_they_are_perfect() -> None:
    truth = random_images(3, 3, 16, 16)
    candidates = torch.cat([truth, 3 * truth[:1] + 1, truth[:1], random_images(2, 3, 16, 16, seed=1)])
    _, _, voters = vote(candidates, ncc_distance(truth, candidates), 1.1)
    assert voters.tolist() == [3, 1, 1]


def test_one_to_one_takes_the_least_total_and_no_forbidden_pair() -> None:
    inf = math.inf
    rows, columns = assign_pairs(torch.tensor([[1.0, 2.0, inf], [1.0, 9.0, inf], [inf, inf, inf]]))
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])
    assert [len(part) for part in assign_pairs(torch.full((2, 3), inf))] == [0, 0]
    assert [len(part) for part in assign_pairs(torch.zeros(2, 0))] == [0, 0]


def test_one_to_one_prefers_more_pairs_to_cheaper_ones() -> None:
    rows, columns = assign_pairs(torch.tensor([[0.0, 4.0], [4.0, math.inf]]))
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])
    candidates = random_images(2, 1, 8, 8)
    assigned, index, voters = assign(candidates, torch.tensor([[0.0, 4.0], [4.0, math.inf]]))
    torch.testing.assert_close(assigned, candidates[[1, 0]])
    assert (index.tolist(), voters.tolist()) == ([1, 0], [1, 1])


def test_within_a_group_candidates_take_the_order_of_their_images() -> None:
    """At the smallest sum of squared errors, whatever leaves [0, 1]; one that is not finite takes what is left."""
    images = random_images(6, 1, 4, 4).clamp(0, 1)
    given = images[[2, 0, 1, 5, 3, 4]].clone()
    assert in_order(given, images, 1) is given
    assert torch.equal(in_order(given, images, 3), images)
    given[0] += 10 * (given[0] == 1)  # beyond white is white
    assert torch.equal(in_order(given, images, 3).clamp(0, 1), images)
    given[3] = math.nan
    ordered = in_order(given, images, 3)
    assert torch.equal(ordered[3:5], images[3:5]) and bool(ordered[5].isnan().all())
    assert torch.equal(in_order(images[[0, 3]], images[[3, 0]], 1), images[[0, 3]])


@pytest.mark.parametrize("pixel", [math.nan, math.inf, -math.inf])
def test_one_bad_pixel_costs_the_candidate_its_place(pixel: float) -> None:
    images = random_images(2, 1, 4, 4).clamp(0, 1)
    candidates = images[[0, 0]].clone()
    candidates[0, 0, 0, 0] = pixel
    assert torch.equal(in_order(candidates, images, 2)[0], images[0])


def test_what_leaves_the_range_of_pixels_is_no_reason_to_take_another_image() -> None:
    """The first candidate shows (1, 0), which is nearer to (0.9, 0), though 21 is nearer to 1 than to 0.9."""
    images = torch.tensor([[0.9, 0.0], [1.0, 1.0]]).view(2, 1, 1, 2)
    candidates = torch.tensor([[21.0, 0.0], [1.0, 1.0]]).view(2, 1, 1, 2)
    assert torch.equal(in_order(candidates, images, 2), candidates)


def test_two_errors_of_three_tenths_are_less_than_one_of_five() -> None:
    """The first order has errors of 0 and 0.5, the other 0.3 and 0.3: a larger sum, a smaller sum of squares."""
    images = torch.tensor([[0.5, 0.5], [0.5 - 0.35 / 3, 0.5 + 0.3 * math.sqrt(1 - (7 / 18) ** 2)]]).view(2, 1, 1, 2)
    candidates = torch.tensor([[0.5, 0.5], [0.8, 0.5]]).view(2, 1, 1, 2)
    assert torch.equal(in_order(candidates, images, 2), candidates.flip(0))


def test_stretch() -> None:
    images = torch.tensor([-1.0, 0.0, 1.0, 3.0]).view(1, 2, 1, 2)
    torch.testing.assert_close(stretch(images).flatten(), torch.tensor([0, 0.25, 0.5, 1]))
    assert not stretch(torch.full((1, 3, 4, 4), 0.7)).any()


def test_nearest_neighbours() -> None:
    images, pool = random_images(3, 3, 8, 8), random_images(6, 3, 8, 8, seed=1)
    expected = (images[:, None] - pool[None]).square().mean((2, 3, 4)).min(1)
    distance, index = nearest_neighbours(images, pool)
    torch.testing.assert_close(distance, expected.values)
    assert torch.equal(index, expected.indices)
    with pytest.raises(ValueError, match="at least one"):
        nearest_neighbours(images, pool[:0])
