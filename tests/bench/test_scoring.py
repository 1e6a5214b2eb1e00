from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from skimage.metrics import structural_similarity
from torch import Tensor

from bench.scoring import (
    METRICS,
    PROTOCOLS,
    Metric,
    Protocol,
    assign,
    mse,
    ncc_distance,
    nearest_neighbour_distance,
    one_to_one,
    psnr,
    score,
    ssim_wang,
    ssim_window3,
    stretch,
    vote,
)

STRETCHED = [protocol for protocol in PROTOCOLS.values() if protocol.stretch]
UNIQUE = [protocol for protocol in PROTOCOLS.values() if protocol.one_to_one]
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=lambda protocol: protocol.name)
stretched_protocol = pytest.mark.parametrize("protocol", STRETCHED, ids=lambda protocol: protocol.name)


def random_images(count: int, *shape: int, seed: int = 0) -> Tensor:
    """Unlike images that fill [0, 1], so that stretching leaves them alone."""
    return stretch(torch.rand(count, *shape, generator=torch.Generator().manual_seed(seed)))


def slow_ssim_window3(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """The definition, pixel by pixel: Gaussian weights on a 3 x 3 window, borders reflected."""
    weights = {step: math.exp(-(step[0] ** 2 + step[1] ** 2) / (2 * 1.5**2)) for step in product((-1, 0, 1), repeat=2)}
    total = sum(weights.values())
    channels, height, width = x.shape
    values = []
    for c, i, j in product(range(channels), range(height), range(width)):
        mx = my = mxx = myy = mxy = 0.0
        for (di, dj), weight in weights.items():
            row = height - 1 - abs(height - 1 - abs(i + di))
            column = width - 1 - abs(width - 1 - abs(j + dj))
            a, b, w = x[c, row, column], y[c, row, column], weight / total
            mx, my, mxx, myy, mxy = mx + w * a, my + w * b, mxx + w * a * a, myy + w * b * b, mxy + w * a * b
        vx, vy, cov = mxx - mx * mx, myy - my * my, mxy - mx * my
        values.append((2 * mx * my + 1e-4) * (2 * cov + 9e-4) / ((mx * mx + my * my + 1e-4) * (vx + vy + 9e-4)))
    return float(np.mean(values))


# Metrics


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 25, 25), (1, 11, 13)])
def test_ssim_wang_is_scikit_images(shape: tuple[int, int, int]) -> None:
    x, y = random_images(3, *shape), random_images(3, *shape, seed=1)
    y = 0.7 * x + 0.3 * y
    for value, a, b in zip(ssim_wang(x, y), x.double().numpy(), y.double().numpy(), strict=True):
        expected = structural_similarity(
            a.transpose(1, 2, 0),
            b.transpose(1, 2, 0),
            channel_axis=2,
            data_range=1,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
        assert float(value) == pytest.approx(expected, abs=1e-6)


def test_ssim_wang_of_tiny_images_is_nan() -> None:
    assert ssim_wang(random_images(2, 1, 8, 8), random_images(2, 1, 8, 8)).isnan().all()


@pytest.mark.parametrize("shape", [(3, 9, 7), (1, 8, 8), (1, 2, 3)])
def test_ssim_window3_is_its_definition(shape: tuple[int, int, int]) -> None:
    x, noise = random_images(4, *shape), random_images(4, *shape, seed=1)
    y = x.lerp(noise, torch.tensor([0.0, 0.2, 0.6, 1.0])[:, None, None, None])
    expected = [slow_ssim_window3(a, b) for a, b in zip(x.double().numpy(), y.double().numpy(), strict=True)]
    torch.testing.assert_close(ssim_window3(x, y), torch.tensor(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_identity_is_the_best_value_and_others_stay_in_range(metric: Metric) -> None:
    x, y = random_images(4, 3, 16, 16), random_images(4, 3, 16, 16, seed=1)
    low, high = metric.range
    same, other = metric.function(x, x), metric.function(x, y)
    torch.testing.assert_close(same, torch.full((4,), high if metric.direction == "higher" else low))
    assert ((other >= low) & (other <= high)).all()
    assert ((other < same) if metric.direction == "higher" else (other > same)).all()
    with pytest.raises(ValueError, match="one shape"):
        metric.function(x, y[:1])


def test_mse_and_psnr() -> None:
    x = torch.zeros(1, 1, 12, 12)
    assert mse(x, x + 0.1).item() == pytest.approx(0.01)
    assert psnr(x, x + 0.1).item() == pytest.approx(20, abs=1e-4)
    assert psnr(x, x).item() == 100


# Matching


@settings(max_examples=50, deadline=None)
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


def test_ncc_distance_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    truth, candidates = random_images(3, 3, 8, 8), random_images(11, 3, 8, 8, seed=1)
    whole, nearest = ncc_distance(truth, candidates), nearest_neighbour_distance(truth, candidates)
    monkeypatch.setattr("bench.scoring.matching._CHUNK", 4)
    torch.testing.assert_close(ncc_distance(truth, candidates), whole)
    torch.testing.assert_close(nearest_neighbour_distance(truth, candidates), nearest)


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
    with pytest.raises(ValueError, match="above 1"):
        vote(candidates, distance, 1.0)


def test_copies_vote_even_when_they_are_perfect() -> None:
    truth = random_images(3, 3, 16, 16)
    candidates = torch.cat([truth, 3 * truth[:1] + 1, truth[:1], random_images(2, 3, 16, 16, seed=1)])
    _, _, voters = vote(candidates, ncc_distance(truth, candidates), 1.1)
    assert voters.tolist() == [3, 1, 1]


def test_one_to_one_takes_the_least_total_and_no_forbidden_pair() -> None:
    inf = math.inf
    rows, columns = one_to_one(torch.tensor([[1.0, 2.0, inf], [1.0, 9.0, inf], [inf, inf, inf]]))
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])
    assert [len(part) for part in one_to_one(torch.full((2, 3), inf))] == [0, 0]
    assert [len(part) for part in one_to_one(torch.zeros(2, 0))] == [0, 0]


def test_one_to_one_prefers_more_pairs_to_cheaper_ones() -> None:
    rows, columns = one_to_one(torch.tensor([[0.0, 4.0], [4.0, math.inf]]))
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])
    candidates = random_images(2, 1, 8, 8)
    assigned, index, voters = assign(candidates, torch.tensor([[0.0, 4.0], [4.0, math.inf]]))
    torch.testing.assert_close(assigned, candidates[[1, 0]])
    assert (index.tolist(), voters.tolist()) == ([1, 0], [1, 1])


def test_stretch() -> None:
    images = torch.tensor([-1.0, 0.0, 1.0, 3.0]).view(1, 2, 1, 2)
    torch.testing.assert_close(stretch(images).flatten(), torch.tensor([0, 0.25, 0.5, 1]))
    assert not stretch(torch.full((1, 3, 4, 4), 0.7)).any()


def test_nearest_neighbour_distance() -> None:
    images, pool = random_images(3, 3, 8, 8), random_images(6, 3, 8, 8, seed=1)
    expected = (images[:, None] - pool[None]).square().mean((2, 3, 4)).amin(1)
    torch.testing.assert_close(nearest_neighbour_distance(images, pool), expected)
    with pytest.raises(ValueError, match="at least one"):
        nearest_neighbour_distance(images, pool[:0])


# Protocols


@stretched_protocol
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 25, 25), (1, 8, 8)])
def test_planted_permutation_is_found(protocol: Protocol, shape: tuple[int, int, int]) -> None:
    n = 12
    generator = torch.Generator().manual_seed(3)
    truth, mean = random_images(n, *shape), torch.zeros(shape)
    order = torch.randperm(n + 20, generator=generator)
    scale = torch.rand(n, 1, 1, 1, generator=generator) * 5 + 0.05
    planted = scale * truth + torch.randn(n, 1, 1, 1, generator=generator)
    pool = torch.cat([planted, random_images(20, *shape, seed=4)])
    scores = score(protocol, pool[order], truth, mean)
    assert torch.equal(order[scores.candidate], torch.arange(n))
    assert scores.n_good == n
    assert scores.ssim_best == pytest.approx(1, abs=1e-4)
    torch.testing.assert_close(scores.reconstruction, truth, atol=1e-4, rtol=0)


def test_assigned_rescales_nothing() -> None:
    mean = random_images(1, 3, 16, 16, seed=9)[0]
    truth = random_images(5, 3, 16, 16)
    exact = score(PROTOCOLS["assigned"], (truth - mean).flip(0), truth, mean)
    assert exact.n_good == 5
    assert exact.candidate.tolist() == [4, 3, 2, 1, 0]
    assert exact.mse_mean < 1e-12
    weak = score(PROTOCOLS["assigned"], 0.05 * (truth - mean), truth, mean)
    assert torch.equal(weak.candidate, torch.arange(5))
    torch.testing.assert_close(weak.reconstruction, (0.05 * (truth - mean) + mean).clamp(0, 1))
    assert weak.mse_mean > 0.01


def test_one_image_many_times_is_one_unique_reconstruction() -> None:
    truth, mean = random_images(8, 3, 16, 16), torch.zeros(3, 16, 16)
    repeated = truth[2:3].repeat(20, 1, 1, 1)
    assert score(PROTOCOLS["buzaglo2023-unique"], repeated, truth, mean).n_good == 1


def test_unique_counts_a_candidate_once_where_voting_counts_it_for_every_look_alike() -> None:
    truth = random_images(1, 3, 16, 16).repeat(4, 1, 1, 1)
    truth = truth.lerp(random_images(4, 3, 16, 16, seed=1), 0.05)
    mean = torch.zeros(3, 16, 16)
    assert score(PROTOCOLS["buzaglo2023"], truth[:1], truth, mean).n_good == 4
    assert score(PROTOCOLS["buzaglo2023-unique"], truth[:1], truth, mean).n_good == 1


@every_protocol
def test_useless_candidates_never_win(protocol: Protocol) -> None:
    truth, mean = random_images(4, 3, 16, 16), torch.zeros(3, 16, 16)
    useless = torch.zeros(3, 3, 16, 16)
    useless[1], useless[2] = math.nan, -math.inf
    scores = score(protocol, torch.cat([useless, truth]), truth, mean)
    assert scores.candidate.tolist() == [3, 4, 5, 6]
    assert scores.n_good == 4
    assert scores.reconstruction.isfinite().all()


@every_protocol
@pytest.mark.parametrize("useless", [math.nan, math.inf, 0.3, None])
def test_without_any_usable_candidate_the_mean_image_stands_in(protocol: Protocol, useless: float | None) -> None:
    truth = random_images(4, 3, 16, 16)
    mean = truth.mean(0)
    candidates = torch.zeros(0, 3, 16, 16) if useless is None else torch.full((2, 3, 16, 16), useless)
    scores = score(protocol, candidates, truth, mean)
    torch.testing.assert_close(scores.reconstruction, mean.expand_as(truth))
    assert scores.candidate.tolist() == [-1] * 4
    assert scores.voters.tolist() == [0] * 4
    assert scores.n_good == 0
    for values in (scores.ssim, scores.ssim_window3, scores.mse, scores.psnr):
        assert values.isfinite().all()
    assert math.isnan(scores.ssim_best)
    assert math.isnan(scores.ssim_top10)
    assert math.isnan(scores.mse_best)


@pytest.mark.parametrize("protocol", UNIQUE, ids=lambda protocol: protocol.name)
def test_fewer_candidates_than_images(protocol: Protocol) -> None:
    truth = random_images(6, 3, 16, 16)
    mean = truth[4] * 0.9  # the mean image itself looks like image 4, which must not count
    scores = score(protocol, (truth - mean)[[5, 1]], truth, mean)
    assert scores.candidate.tolist() == [-1, 1, -1, -1, -1, 0]
    assert scores.ssim[4] > protocol.threshold
    assert scores.good.tolist() == [False, True, False, False, False, True]
    torch.testing.assert_close(scores.reconstruction[4], mean)
    assert scores.ssim_top10 == pytest.approx(scores.ssim[[1, 5]].mean().item())


@every_protocol
def test_grey_digits_of_8_by_8(protocol: Protocol) -> None:
    truth = random_images(5, 1, 8, 8)
    mean = truth.mean(0)
    scores = score(protocol, truth - mean, truth, mean)
    assert torch.equal(scores.candidate, torch.arange(5))
    assert torch.equal(scores.ssim, scores.ssim_window3)
    assert scores.n_good == 5


def test_grey_images_are_matched_at_full_resolution() -> None:
    checkers = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).repeat(8, 8).view(1, 1, 16, 16)
    smooth = torch.linspace(0, 1, 16).expand(1, 1, 16, 16)
    truth = stretch(0.2 * smooth + checkers)
    candidates = torch.cat([checkers, smooth])
    grey = score(PROTOCOLS["haim2022-min"], candidates, truth, torch.zeros(1, 16, 16))
    colour = score(
        PROTOCOLS["haim2022-min"],
        candidates.repeat(1, 3, 1, 1),
        truth.repeat(1, 3, 1, 1),
        torch.zeros(3, 16, 16),
    )
    assert (grey.candidate.item(), colour.candidate.item()) == (0, 1)


def test_summaries() -> None:
    truth, mean = random_images(15, 3, 16, 16), torch.zeros(3, 16, 16)
    noisy = truth.lerp(random_images(15, 3, 16, 16, seed=1), torch.linspace(0, 0.5, 15)[:, None, None, None])
    scores = score(PROTOCOLS["buzaglo2023"], noisy, truth, mean)
    assert scores.ssim_top10 == pytest.approx(scores.ssim.topk(10).values.mean().item())
    assert scores.ssim_best == scores.ssim.max().item()
    assert scores.mse_best == scores.mse.min().item()
    assert scores.ssim_mean == pytest.approx(scores.ssim.mean().item())
    assert scores.mse_mean == pytest.approx(scores.mse.mean().item())
    assert scores.n_good == int((scores.ssim > 0.4).sum())


def test_wrong_inputs_are_refused() -> None:
    truth, mean = random_images(2, 3, 16, 16), torch.zeros(3, 16, 16)
    protocol = PROTOCOLS["buzaglo2023"]
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        score(protocol, truth, 255 * truth, mean)
    with pytest.raises(ValueError, match="mean"):
        score(protocol, truth, truth, torch.zeros(3))
    with pytest.raises(ValueError, match="candidates"):
        score(protocol, truth[:, :1], truth, mean)
    with pytest.raises(ValueError, match="n > 0"):
        score(protocol, truth, truth[:0], mean)
