"""Intervals and ranks: what they promise, on counts whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap, t

from bench.publish.statistics import (
    Sample,
    Seeds,
    count_interval,
    difference_interval,
    gain_interval,
    ranks,
)

N = 500


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def runs(rng: np.random.Generator, chance: np.ndarray | float, seeds: int, luck: float = 0.0) -> np.ndarray:
    """Good images (seeds, n) with a chance each, in (0, 1), of which a seed's luck moves the log odds."""
    chance = np.broadcast_to(chance, N)
    odds = np.log(chance / (1 - chance)) + luck * rng.standard_normal((seeds, 1))
    return rng.random((seeds, N)) < 1 / (1 + np.exp(-odds))


def difficulty(rng: np.random.Generator, mean: float) -> np.ndarray:
    """Chances (n,) as attacks have them: most images come out always or never."""
    return rng.beta(mean, 1 - mean, N).clip(1e-9, 1 - 1e-9)


def one_training(values: np.ndarray) -> Sample:
    """The sample of runs (runs, n) on one training."""
    return Sample({0: Seeds.of(values)})


# --- statistics


def test_the_variance_is_that_of_the_paired_bootstrap(rng: np.random.Generator) -> None:
    chance = difficulty(rng, 0.3)
    old, new = (runs(rng, chance, 1)[0].astype(float) for _ in range(2))
    low, high = difference_interval(one_training(old[None]), one_training(new[None]))
    drawn = bootstrap(
        (new, old), lambda x, y, axis: (x - y).sum(axis), paired=True, n_resamples=5000, method="percentile", rng=rng
    )
    deviation = np.sqrt(((high - low) / 2 / t.ppf(0.975, N - 1)) ** 2 - 2)

    assert (low + high) / 2 == pytest.approx(new.sum() - old.sum())
    assert deviation == pytest.approx(drawn.standard_error, rel=0.03)
    assert deviation < 0.9 * np.sqrt(N * (old.var() + new.var()))  # pairing pays where attacks find the same images


@pytest.mark.parametrize("luck", [0.0, 0.3])
def test_the_seeds_add_what_their_counts_vary_by_beyond_chance(rng: np.random.Generator, luck: float) -> None:
    found = np.mean([Seeds.of(runs(rng, 0.3, 4, luck)).variance for _ in range(400)])
    rates = runs(rng, 0.3, 20_000, luck).mean(axis=1)
    beyond = N**2 * rates.var() - N * rates.mean() * (1 - rates.mean())

    assert found == pytest.approx(beyond / 4, rel=0.15, abs=12)  # cut off at 0, so a little too high
    assert Seeds.of(runs(rng, 0.3, 1)).variance == 0


@pytest.mark.parametrize(
    ("mean", "seeds", "luck", "spread"), [(0.01, 1, 0, 0), (0.2, 1, 0, 0), (0.3, 5, 0, 1), (0.3, 5, 0.2, 1)]
)
def test_the_interval_covers_the_truth_as_often_as_it_says(
    rng: np.random.Generator, mean: float, seeds: int, luck: float, spread: int
) -> None:
    covered = []
    for _ in range(400):
        low, high = count_interval(one_training(runs(rng, difficulty(rng, mean) if spread else mean, seeds, luck)))
        covered.append(low <= mean * N <= high)

    assert 0.92 <= np.mean(covered) <= 0.99


@pytest.mark.parametrize(("count", "low", "high"), [(0, 0, 5), (500, 495, 500), (3, 0.3, 9)])
def test_few_or_all_good_images_are_no_certainty(count: int, low: float, high: float) -> None:
    assert count_interval(one_training(np.arange(N)[None] < count)) == pytest.approx((low, high), abs=0.6)


@pytest.mark.parametrize("count", [0, 1, 99, 100])
@pytest.mark.parametrize("trainings", [1, 3])
def test_the_interval_holds_the_count(count: int, trainings: int) -> None:
    seeds = Seeds.of(np.arange(100)[None] < count)
    low, high = count_interval(Sample(dict.fromkeys(range(trainings), seeds)))
    assert low <= count <= high


@pytest.mark.parametrize(("n", "count"), [(8, 4), (20, 6), (500, 40)])
def test_the_interval_of_one_run_is_agresti_and_coulls_with_students_t(n: int, count: int) -> None:
    low, high = count_interval(one_training(np.arange(n)[None] < count))
    share = (count + 2) / (n + 4)
    width = t.ppf(0.975, n - 1) * n * np.sqrt(share * (1 - share) / (n + 4))

    assert (low, high) == pytest.approx((max(0, n * share - width), min(n, n * share + width)))


@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_few_seeds_that_disagree_have_as_few_degrees_of_freedom(seeds: int) -> None:
    """Satterthwaite's; what the seeds vary by is far above what the images do."""
    share = np.full(N, 0.5)
    low, high = count_interval(Sample({0: Seeds(N, share, N / 2, 0.0, seeds, 60.0**2)}))
    images = N**2 * np.concatenate([share, [1, 1, 0, 0]]).var() / (N + 4)
    freedom = (images + 3600) ** 2 / (images**2 / (N - 1) + 3600**2 / (seeds - 1))
    width = t.ppf(0.975, freedom) * np.sqrt(images + 3600)

    assert (low, high) == pytest.approx((max(0, N / 2 - width), min(N, N / 2 + width)))


@pytest.mark.parametrize(("only_new", "sure"), [(3, False), (5, False), (7, True)])
def test_a_few_images_more_are_judged_as_the_exact_test_judges_them(only_new: int, sure: bool) -> None:
    """The exact test of McNemar finds p < 0.05 from 6 images on that only one of the two has."""
    old, new = (one_training(np.arange(N)[None] < count) for count in (40, 40 + only_new))

    assert (difference_interval(old, new)[0] > 0) == sure


# --- ranks


@pytest.mark.parametrize(("seeds", "luck"), [(1, 0.0), (5, 0.0), (5, 0.1)])
def test_attacks_that_are_alike_share_ranks(rng: np.random.Generator, seeds: int, luck: float) -> None:
    shared = []
    for _ in range(300):
        chance = difficulty(rng, 0.2)
        low, high = ranks([one_training(runs(rng, chance, seeds, luck)) for _ in range(4)])
        shared.append((low == 1).all() and (high == 4).all())

    assert np.mean(shared) >= 0.93


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_better_attack_comes_first(rng: np.random.Generator, seeds: int) -> None:
    first = []
    for _ in range(100):
        chance = difficulty(rng, 0.2)
        alike = [one_training(runs(rng, chance, seeds)) for _ in range(3)]
        low, high = ranks([*alike, one_training(runs(rng, (chance + 0.1).clip(0, 1 - 1e-9), seeds))])
        first.append((low[3], high[3]) == (1, 1) and (low[:3] == 2).all())

    assert np.mean(first) >= 0.9


def test_one_lucky_seed_is_no_better_attack(rng: np.random.Generator) -> None:
    steady, lucky = runs(rng, 0.2, 3), runs(rng, 0.2, 3)
    lucky[0] = runs(rng, 0.6, 1)

    assert (ranks([one_training(steady), one_training(lucky)])[0] == 1).all()
    assert ranks([one_training(steady[:1]), one_training(lucky[:1])])[0].tolist() == [2, 1]  # one seed cannot know


def test_neither_order_nor_company_of_equals_changes_a_rank(rng: np.random.Generator) -> None:
    found = [runs(rng, chance, 3) for chance in (0.1, 0.15, 0.2, 0.25, 0.3)]
    low, high = ranks([one_training(one) for one in found])
    again = ranks([one_training(one[::-1]) for one in found[::-1]])
    assert (again[0][::-1].tolist(), again[1][::-1].tolist()) == (low.tolist(), high.tolist())

    low, high = ranks([one_training(one) for one in (*found, found[2])])
    assert (low[2], high[2]) == (low[5], high[5])


# --- gains


def test_the_interval_of_a_gain_is_that_of_the_difference_from_the_null(rng: np.random.Generator) -> None:
    found, null = (runs(rng, chance, 1)[0].astype(float)[None] for chance in (0.3, 0.05))

    assert gain_interval(one_training(found - null)) == pytest.approx(
        difference_interval(one_training(null), one_training(found))
    )


def test_a_gain_may_be_a_loss() -> None:
    """Its interval has both ends below 0, and goes no further than all images."""
    null = np.arange(20)
    assert gain_interval(one_training(-(null < 12).astype(float)[None])) == pytest.approx((-17.5, -6.5), abs=0.1)
    assert gain_interval(one_training(-np.ones((1, 20))))[0] == -20


@pytest.mark.parametrize(("found", "null"), [(40, 5), (300, 260), (490, 480), (0, 17), (5, 5)])
def test_without_masks_the_variance_is_the_most_that_the_counts_allow(
    rng: np.random.Generator, found: int, null: int
) -> None:
    counted = Seeds.of_counts(N, np.array([float(found)]), np.array([float(null)]))
    images = np.arange(N)
    apart = (images < found).astype(float) - (images >= N - null)
    assert counted.total == found - null
    assert counted.spread == pytest.approx(N * apart.var())
    for _ in range(20):
        any_null = rng.permutation(images < null)
        assert Seeds.of(((images < found).astype(float) - any_null)[None]).spread <= counted.spread + 1e-9


def test_without_masks_the_seeds_add_all_that_their_gains_vary_by() -> None:
    counted = Seeds.of_counts(N, np.array([10.0, 16.0, 25.0]), np.array([1.0, 1.0, 4.0]))
    assert (counted.total, counted.variance) == (15, np.var([9, 15, 21], ddof=1) / 3)


def test_without_masks_a_pair_is_no_surer_than_with_any_masks(rng: np.random.Generator) -> None:
    counted = [Sample({0: Seeds.of_counts(N, np.array([float(c)]), np.zeros(1))}) for c in (60, 100)]
    low, high = difference_interval(*counted)
    for _ in range(20):
        shown = [one_training(rng.permutation(np.arange(N) < count)[None]) for count in (60, 100)]
        within = difference_interval(*shown)
        assert low <= within[0] and within[1] <= high


# --- retrainings


def retrained(rng: np.random.Generator, chances: np.ndarray, luck: float, trainings: int) -> Sample:
    """One run on each training of a victim, whose luck moves the log odds of all its images."""
    return Sample({seed: Seeds.of(runs(rng, rng.permutation(chances), 1, luck)) for seed in range(trainings)})


@pytest.mark.parametrize("luck", [0.0, 0.5])
def test_the_interval_over_retrainings_covers_the_truth(rng: np.random.Generator, luck: float) -> None:
    chances = difficulty(rng, 0.3)
    odds = np.log(chances / (1 - chances))
    moved = odds + luck * np.random.default_rng(1).standard_normal((20_000, 1))
    truth = float((1 / (1 + np.exp(-moved))).sum(axis=1).mean())
    covered = []
    for _ in range(400):
        low, high = count_interval(retrained(rng, chances, luck, 5))
        covered.append(low <= truth <= high)

    assert 0.91 <= np.mean(covered) <= 1


@pytest.mark.parametrize("counts", [(10, 20, 60), (30, 30, 30)], ids=["apart", "alike"])
def test_the_interval_of_a_few_trainings_is_students_with_satterthwaites_freedom(counts: tuple[int, ...]) -> None:
    """Of trainings that are alike nothing is added to the variance over images."""
    found = [(np.arange(100) < count).astype(float) for count in counts]
    low, high = gain_interval(Sample({seed: Seeds.of(one[None]) for seed, one in enumerate(found)}))
    within = np.array([100 * one.var() + 2 for one in found])
    beyond = max(np.var(counts, ddof=1) / 3 - within.sum() / 9, 0)
    variance = within.sum() / 9 + beyond
    freedom = variance**2 / ((within**2 / 99).sum() / 81 + beyond**2 / 2)
    width = t.ppf(0.975, freedom) * np.sqrt(variance)

    assert (beyond > 0) == (len(set(counts)) > 1)
    assert (low, high) == pytest.approx((max(-100, 30 - width), min(100, 30 + width)))


def test_one_training_says_nothing_of_others(rng: np.random.Generator) -> None:
    widths = [np.diff(count_interval(retrained(rng, np.full(N, 0.3), 1.0, count)))[0] for count in (1, 5)]

    assert widths[1] > widths[0]  # though five times as many images speak


def test_what_a_training_gives_all_attacks_alike_is_no_difference_between_them() -> None:
    """The second attack gets the same 30 images more on every training, of which one gives away 100, the other 300."""
    weak = Sample({0: Seeds.of(np.arange(N)[None] < 100), 1: Seeds.of(np.arange(N)[None] < 300)})
    strong = Sample({0: Seeds.of(np.arange(N)[None] < 130), 1: Seeds.of(np.arange(N)[None] < 330)})
    low, high = difference_interval(weak, strong)

    assert (low + high) / 2 == pytest.approx(30)
    assert low > 20
    assert np.diff(count_interval(weak))[0] > 300


def test_only_trainings_that_both_have_are_compared() -> None:
    few, many = (Seeds.of(np.arange(N)[None] < count) for count in (100, 200))
    low, high = difference_interval(Sample({0: few, 1: many}), Sample({1: many}))
    assert (low + high) / 2 == pytest.approx(0)
    assert np.isinf(difference_interval(Sample({0: few}), Sample({1: many}))).all()
    assert [ends.tolist() for ends in ranks([Sample({0: few}), Sample({1: many})])] == [[1, 1], [2, 2]]
