"""Precision and recall of an attack's ranking of its own candidates."""

from __future__ import annotations

import math

import pytest
import torch
from pictures import random_images

from bench.scoring import PROTOCOLS, ConfidenceCurve, Matcher, Truth, confidence_curve, score
from bench.scoring.matching import stretch
from bench.scoring.ssim import ssim_wang, ssim_window3

TRUTH = random_images(4, 3, 16, 16)
FLAT = torch.zeros(3, 16, 16), torch.ones(2)
"""Mean and oracle of two images."""
JUNK = random_images(4, 3, 16, 16, seed=1)
CANDIDATES = torch.cat([TRUTH[:3], TRUTH[:1], JUNK])
"""Four hits, two of them of one image, and four misses."""


def curve(confidence: list[float], protocol: str = "buzaglo2023") -> ConfidenceCurve:
    matcher = Matcher(CANDIDATES, Truth(TRUTH, torch.zeros(3, 16, 16), torch.ones(4)))
    return confidence_curve(PROTOCOLS[protocol], matcher, torch.tensor(confidence))


def test_a_ranking_that_knows_its_hits_is_perfect() -> None:
    found = curve([9, 7, 6, 8, 1, 2, 3, 4])
    assert found.hit.tolist() == [True] * 4 + [False] * 4
    assert found.average_precision == pytest.approx(1)
    assert found.precision.tolist() == pytest.approx([1, 1, 1, 1, 4 / 5, 4 / 6, 4 / 7, 4 / 8])
    assert found.recall.tolist() == pytest.approx([1 / 3, 1 / 3, 2 / 3, 1, 1, 1, 1, 1])
    assert found.images.tolist() == [1, 1, 2, 3, 3, 3, 3, 3]
    assert found.confidence.tolist() == sorted(found.confidence.tolist(), reverse=True)


def test_a_ranking_upside_down_and_one_that_says_nothing() -> None:
    assert curve([1, 2, 3, 4, 5, 6, 7, 8]).average_precision == pytest.approx((1 / 5 + 2 / 6 + 3 / 7 + 4 / 8) / 4)
    silent = curve([0.5] * 8)
    assert silent.average_precision == silent.base_rate == 0.5


def test_precision_at_k_counts_hits_and_what_is_lacking_as_misses() -> None:
    found = curve([9, 7, 6, 2.5, 1, 2, 3, 4])
    assert [found.precision_at(k) for k in (1, 3, 4, 5, 8, 16)] == pytest.approx([1, 1, 3 / 4, 3 / 5, 4 / 8, 4 / 16])
    assert [found.images_at(k) for k in (1, 2, 3, 16)] == [1, 2, 3, 3]


def test_ties_count_as_their_mean_order_would() -> None:
    """One is sure, and of the seven others, three of them hits, nothing is said."""
    found = curve([0, 0, 0, 1, 0, 0, 0, 0])
    assert [found.precision_at(k) for k in (1, 2, 8, 16)] == pytest.approx([1, (1 + 3 / 7) / 2, 4 / 8, 4 / 16])


def test_a_random_orders_average_precision_is_what_the_formula_says_and_above_the_base_rate() -> None:
    found, m, hits = curve([0] * 8), 8, 4
    generator = torch.Generator().manual_seed(0)
    orders = [curve(torch.rand(m, generator=generator).tolist()).average_precision for _ in range(300)]
    harmonic = sum(1 / k for k in range(1, m + 1))
    expected = (harmonic + (hits - 1) / (m - 1) * (m - harmonic)) / m
    assert found.base_rate == found.average_precision == hits / m < expected
    assert sum(orders) / len(orders) == pytest.approx(expected, abs=0.04)


def test_images_of_tied_candidates_are_counted_in_their_order() -> None:
    assert curve([0] * 8).images_at(3) == 3  # three images first, then one of them again
    assert curve([0, 0, 1, 0, 1, 1, 0, 0]).images_at(4) == 2


def test_an_undefined_confidence_comes_last() -> None:
    found = curve([math.nan, -2, -3, -1, -5, -6, -7, -math.inf])
    assert found.hit.tolist() == [True] * 3 + [False] * 3 + [True, False]  # beside the least there is
    assert found.average_precision < 1


def test_useless_candidates_are_no_hits() -> None:
    matcher = Matcher(torch.full((2, 3, 16, 16), math.nan), Truth(TRUTH, torch.zeros(3, 16, 16), torch.ones(4)))
    found = confidence_curve(PROTOCOLS["buzaglo2023"], matcher, torch.tensor([1.0, 2.0]))
    assert (found.base_rate, found.average_precision) == (0, 0)
    assert found.recall.tolist() == [0, 0]


@pytest.mark.parametrize("pixel", [math.nan, math.inf, 0.5])
def test_what_must_not_serve_is_no_hit_where_the_mean_image_would_be(pixel: float) -> None:
    """Shown as the mean image, a candidate that says nothing would reconstruct the image that is its mean."""
    useless = torch.full((2, 3, 16, 16), 0.5)
    useless[:, 0, 0, 0] = pixel
    matcher = Matcher(useless, Truth(TRUTH, TRUTH[0], torch.ones(4)))
    found = confidence_curve(PROTOCOLS["buzaglo2023"], matcher, torch.tensor([1.0, 2.0]))
    assert found.hit.tolist() == [False, False]
    assert (found.base_rate, found.average_precision) == (0, 0)


@pytest.mark.parametrize("protocol", ["buzaglo2023", "haim2022-min"])
def test_a_hit_is_judged_by_the_protocols_own_ssim(protocol: str) -> None:
    amount = torch.linspace(0, 1, 40)[:, None, None, None]
    noisy = TRUTH.repeat(10, 1, 1, 1).lerp(random_images(40, 3, 16, 16, seed=2), amount)
    truth = Truth(TRUTH, torch.zeros(3, 16, 16), torch.ones(4))
    found = confidence_curve(PROTOCOLS[protocol], Matcher(noisy, truth), -torch.arange(40.0))
    nearest = Matcher(noisy, truth).distance(PROTOCOLS[protocol]).argmin(0)
    wang, window3 = (ssim(stretch(noisy), TRUTH[nearest]) > 0.4 for ssim in (ssim_wang, ssim_window3))
    assert not torch.equal(wang, window3)
    assert torch.equal(found.hit, wang if protocol == "buzaglo2023" else window3)


@pytest.mark.parametrize("held_out", [True, False])
def test_a_hit_is_nearer_than_the_nearest_held_out_image_where_the_protocol_says_so(held_out: bool) -> None:
    """By SSIM all pass; without held-out images the protocol judges by SSIM."""
    shown = TRUTH.lerp(JUNK, 0.2)
    error = (shown - TRUTH).square().mean((1, 2, 3))
    oracle = error * torch.tensor([2, 0.5, 2, 0.5]) if held_out else torch.full((4,), math.inf)
    matcher = Matcher(shown, Truth(TRUTH, torch.zeros(3, 16, 16), oracle))
    protocol = PROTOCOLS["nearest-public"]
    found = confidence_curve(protocol, matcher, -torch.arange(4.0))
    assert bool((ssim_wang(shown, TRUTH) > 0.4).all())
    assert found.hit.tolist() == ([True, False, True, False] if held_out else [True] * 4)
    assert torch.equal(found.hit, score(protocol, matcher).good)


def test_a_candidate_is_matched_at_the_protocols_own_resolution() -> None:
    """At full resolution it is like the checkers, which it shows; at half resolution it is like the slope."""
    checkers = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).repeat(8, 8).expand(1, 3, 16, 16)
    slope = torch.linspace(0, 1, 16).expand(1, 3, 16, 16)
    matcher = Matcher(checkers - 0.2 * slope, Truth(stretch(torch.cat([checkers + 0.2 * slope, -slope])), *FLAT))
    names = ("buzaglo2023", "haim2022-min")
    assert [confidence_curve(PROTOCOLS[name], matcher, torch.ones(1)).base_rate for name in names] == [1, 0]


def test_there_is_one_number_a_candidate() -> None:
    with pytest.raises(ValueError, match="8 candidates"):
        curve([1.0])
