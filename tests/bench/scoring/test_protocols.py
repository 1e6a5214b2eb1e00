"""From candidates to counts: planted truths, useless candidates, and the published recipes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from pictures import random_images
from torch import Tensor

from bench.scoring import PROTOCOLS, Matcher, Protocol, Scores, Truth
from bench.scoring import score as score_matched
from bench.scoring.matching import stretch
from bench.scoring.protocols import protocol_named
from bench.scoring.ssim import ssim_wang, ssim_window3
from bench.store.cells import read_cells
from victims.errors import UserError

ROOT = Path(__file__).parents[3]
MATCHED = [one for one in PROTOCOLS.values() if one.matching != "aligned" and one.good != "columns"]
STRETCHED = [protocol for protocol in MATCHED if protocol.stretch]
UNIQUE = [protocol for protocol in MATCHED if protocol.matching == "one to one"]
every_protocol = pytest.mark.parametrize("protocol", MATCHED, ids=lambda protocol: protocol.name)
stretched_protocol = pytest.mark.parametrize("protocol", STRETCHED, ids=lambda protocol: protocol.name)


RECIPES = {
    "haim2022-min": ("nearest", 0.5, None, True, "window3", "ssim", 0.4),
    "haim2022-mean": ("nearest", 0.5, 1.1, True, "window3", "ssim", 0.4),
    "buzaglo2023": ("nearest", 1.0, 1.1, True, "wang", "ssim", 0.4),
    "buzaglo2023-conv": ("nearest", 1.0, 1.5, True, "wang", "ssim", 0.4),
    "buzaglo2023-unique": ("one to one", 1.0, None, True, "wang", "ssim", 0.4),
    "assigned": ("one to one", 1.0, None, False, "wang", "ssim", 0.4),
    "nearest-public": ("one to one", 1.0, None, False, "wang", "oracle", 0.4),
    "vero2023": ("one to one", 1.0, None, False, "wang", "columns", 0.9),
    "balle2022": ("aligned", 1.0, None, False, "wang", "oracle", 0.4),
    "hayes2023": ("aligned", 1.0, None, False, "wang", "named", 0.4),
}
"""Matching, downscale, vote, stretch, SSIM, what makes an image good, and threshold, as the papers state them."""


def test_the_recipes_are_those_of_the_papers() -> None:
    """Whoever changes one gives it another name: published counts carry this one."""
    fields = ("matching", "downscale", "vote_ratio", "stretch", "ssim", "good", "threshold")
    assert {name: tuple(getattr(one, field) for field in fields) for name, one in PROTOCOLS.items()} == RECIPES


def score(protocol: Protocol, candidates: Tensor, images: Tensor, mean: Tensor) -> Scores:
    return score_matched(protocol, Matcher(candidates, Truth(images, mean, torch.ones(len(images)))))


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
    torch.testing.assert_close(exact.reconstruction, truth)
    weak = score(PROTOCOLS["assigned"], 0.05 * (truth - mean), truth, mean)
    assert torch.equal(weak.candidate, torch.arange(5))
    torch.testing.assert_close(weak.reconstruction, (0.05 * (truth - mean) + mean).clamp(0, 1))


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
    assert scores.ssim.isfinite().all()
    assert math.isnan(scores.ssim_best)
    assert math.isnan(scores.ssim_top10)


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
    assert torch.equal(scores.ssim, ssim_window3(scores.reconstruction, truth))
    assert scores.n_good == 5


@pytest.mark.parametrize("order", [1, -1], ids=["listed", "reversed"])
def test_a_matcher_serves_each_protocol_its_own_distances(order: int) -> None:
    """At half resolution the checkers are flat and the slope is nearest; at full resolution the checkers are."""
    checkers = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).repeat(8, 8).expand(1, 3, 16, 16)
    slope = torch.linspace(0, 1, 16).expand(1, 3, 16, 16)
    truth = Truth(stretch(0.2 * slope + checkers), torch.zeros(3, 16, 16), torch.ones(1))
    shared = Matcher(torch.cat([checkers, slope]), truth)
    found = {one.name: score_matched(one, shared).candidate.item() for one in MATCHED[::order]}
    assert found == {one.name: int(one.downscale < 1) for one in MATCHED}


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
    assert scores.ssim_mean == pytest.approx(scores.ssim.mean().item())
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


def test_images_as_large_as_wangs_window_are_judged_with_it() -> None:
    truth = random_images(5, 1, 11, 11)
    mean = truth.mean(0)
    scores = score(PROTOCOLS["buzaglo2023"], truth.lerp(random_images(5, 1, 11, 11, seed=1), 0.2) - mean, truth, mean)
    assert torch.equal(scores.ssim, ssim_wang(scores.reconstruction, truth))
    assert not torch.equal(scores.ssim, ssim_window3(scores.reconstruction, truth))


def test_a_protocol_of_no_such_name() -> None:
    assert protocol_named("assigned") is PROTOCOLS["assigned"]
    with pytest.raises(UserError, match="did you mean buzaglo2023"):
        protocol_named("buzaglo23")


def test_the_informed_adversarys_candidates_are_aligned_and_judged_by_the_oracle() -> None:
    truth = random_images(4, 3, 16, 16)
    mean = truth.mean(0)
    candidates = truth - mean
    candidates[1] *= 0.5
    candidates[2] = math.nan
    errors = (candidates + mean - truth).square().mean((1, 2, 3))
    oracle = torch.full((4,), float(errors[1]) * 1.1)
    matcher = Matcher(candidates[:3], Truth(truth, mean, oracle))
    scores = score_matched(PROTOCOLS["balle2022"], matcher)
    assert scores.candidate.tolist() == [0, 1, -1, -1]
    assert scores.voters.tolist() == [1, 1, 0, 0]
    assert scores.good.tolist() == [True, True, False, False]
    torch.testing.assert_close(scores.reconstruction[3], mean)
    strict = Matcher(candidates, Truth(truth, mean, oracle * 0.5))
    assert score_matched(PROTOCOLS["balle2022"], strict).good.tolist() == [True, False, False, True]


def test_a_protocol_whose_null_is_large_says_so() -> None:
    """By the published rows: a null control that gets a third of the images of some victim or more."""
    rows = read_cells(ROOT / "results" / "runs.csv")
    rows = rows[(rows["null_n_good"] != "") & (rows["status"] == "ok")]
    share = rows["null_n_good"].astype(float) / rows["n"].astype(float)
    large = share.groupby(rows["protocol"]).max() > 1 / 3
    assert set(large[large].index) <= {name for name in PROTOCOLS if PROTOCOLS[name].null}
    by_ssim = {name for name, protocol in PROTOCOLS.items() if protocol.good == "ssim"}
    assert {name for name, protocol in PROTOCOLS.items() if protocol.null} == by_ssim | {"nearest-public"}
