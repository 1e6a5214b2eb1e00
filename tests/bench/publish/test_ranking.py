"""Intervals and ranks: what they promise, on counts whose truth is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy.stats import bootstrap, t

from bench.publish.leaderboard import leaderboard
from bench.publish.ranking import Board, Sample, boards, count_interval, difference_interval, ranks, samples
from bench.store.good_images import encode
from bench.store.records import RunRecord, Status

Make = Callable[..., RunRecord]
N = 500
A, B, C = "architecture", "labels", "weights"


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


def table(records: list[RunRecord]) -> pd.DataFrame:
    return pd.DataFrame([record.model_dump(mode="json") for record in records])


def boards_of(records: list[RunRecord], across_knowledge: bool = False) -> list[Board]:
    return boards(leaderboard(table(records)), samples(table(records)), across_knowledge)


def ranked(board: Board) -> dict[str, str]:
    return dict(zip(board.rows["attack"], board.rows["rank"], strict=True))


def good(count: int) -> dict[str, object]:
    """The columns of a run on 100 images of which the first ones are good."""
    return {"n": 100, "n_good": count, "good_images": encode(np.arange(100) < count)}


# --- statistics


def test_the_variance_is_that_of_the_paired_bootstrap(rng: np.random.Generator) -> None:
    chance = difficulty(rng, 0.3)
    old, new = (runs(rng, chance, 1)[0].astype(float) for _ in range(2))
    low, high = difference_interval(Sample.of(old[None]), Sample.of(new[None]))
    drawn = bootstrap(
        (new, old), lambda x, y, axis: (x - y).sum(axis), paired=True, n_resamples=5000, method="percentile", rng=rng
    )
    deviation = np.sqrt(((high - low) / 2 / t.ppf(0.975, N - 1)) ** 2 - 2)

    assert (low + high) / 2 == pytest.approx(new.sum() - old.sum())
    assert deviation == pytest.approx(drawn.standard_error, rel=0.03)
    assert deviation < 0.9 * np.sqrt(N * (old.var() + new.var()))  # pairing pays where attacks find the same images


@pytest.mark.parametrize("luck", [0.0, 0.3])
def test_the_seeds_add_what_their_counts_vary_by_beyond_chance(rng: np.random.Generator, luck: float) -> None:
    found = np.mean([Sample.of(runs(rng, 0.3, 4, luck)).seed_variance for _ in range(400)])
    rates = runs(rng, 0.3, 20_000, luck).mean(axis=1)
    beyond = N**2 * rates.var() - N * rates.mean() * (1 - rates.mean())

    assert found == pytest.approx(beyond / 4, rel=0.15, abs=12)  # cut off at 0, so a little too high
    assert Sample.of(runs(rng, 0.3, 1)).seed_variance == 0


@pytest.mark.parametrize(
    ("mean", "seeds", "luck", "spread"), [(0.01, 1, 0, 0), (0.2, 1, 0, 0), (0.3, 5, 0, 1), (0.3, 5, 0.2, 1)]
)
def test_the_interval_covers_the_truth_as_often_as_it_says(
    rng: np.random.Generator, mean: float, seeds: int, luck: float, spread: int
) -> None:
    covered = []
    for _ in range(400):
        low, high = count_interval(Sample.of(runs(rng, difficulty(rng, mean) if spread else mean, seeds, luck)))
        covered.append(low <= mean * N <= high)

    assert 0.92 <= np.mean(covered) <= 0.99


@pytest.mark.parametrize(("count", "low", "high"), [(0, 0, 5), (500, 495, 500), (3, 0.3, 9)])
def test_few_or_all_good_images_are_no_certainty(count: int, low: float, high: float) -> None:
    assert count_interval(Sample.of(np.arange(N)[None] < count)) == pytest.approx((low, high), abs=0.6)


@pytest.mark.parametrize(("n", "count"), [(8, 4), (20, 6), (500, 40)])
def test_the_interval_of_one_run_is_agresti_and_coulls_with_students_t(n: int, count: int) -> None:
    low, high = count_interval(Sample.of(np.arange(n)[None] < count))
    share = (count + 2) / (n + 4)
    width = t.ppf(0.975, n - 1) * n * np.sqrt(share * (1 - share) / (n + 4))

    assert (low, high) == pytest.approx((max(0, n * share - width), min(n, n * share + width)))


@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_few_seeds_that_disagree_have_as_few_degrees_of_freedom(seeds: int) -> None:
    """Satterthwaite's; what the seeds vary by is far above what the images do."""
    share = np.full(N, 0.5)
    low, high = count_interval(Sample(share, seeds, seed_variance=60.0**2))
    images = N**2 * np.concatenate([share, [1, 1, 0, 0]]).var() / (N + 4)
    freedom = (images + 3600) ** 2 / (images**2 / (N - 1) + 3600**2 / (seeds - 1))
    width = t.ppf(0.975, freedom) * np.sqrt(images + 3600)

    assert (low, high) == pytest.approx((max(0, N / 2 - width), min(N, N / 2 + width)))


@pytest.mark.parametrize(("only_new", "sure"), [(3, False), (5, False), (7, True)])
def test_a_few_images_more_are_judged_as_the_exact_test_judges_them(only_new: int, sure: bool) -> None:
    """The exact test of McNemar finds p < 0.05 from 6 images on that only one of the two has."""
    old, new = (Sample.of(np.arange(N)[None] < count) for count in (40, 40 + only_new))

    assert (difference_interval(old, new)[0] > 0) == sure


# --- ranks


@pytest.mark.parametrize(("seeds", "luck"), [(1, 0.0), (5, 0.0), (5, 0.1)])
def test_attacks_that_are_alike_share_ranks(rng: np.random.Generator, seeds: int, luck: float) -> None:
    shared = []
    for _ in range(300):
        chance = difficulty(rng, 0.2)
        low, high = ranks([Sample.of(runs(rng, chance, seeds, luck)) for _ in range(4)])
        shared.append((low == 1).all() and (high == 4).all())

    assert np.mean(shared) >= 0.93


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_better_attack_comes_first(rng: np.random.Generator, seeds: int) -> None:
    first = []
    for _ in range(100):
        chance = difficulty(rng, 0.2)
        alike = [Sample.of(runs(rng, chance, seeds)) for _ in range(3)]
        low, high = ranks([*alike, Sample.of(runs(rng, (chance + 0.1).clip(0, 1 - 1e-9), seeds))])
        first.append((low[3], high[3]) == (1, 1) and (low[:3] == 2).all())

    assert np.mean(first) >= 0.9


def test_one_lucky_seed_is_no_better_attack(rng: np.random.Generator) -> None:
    steady, lucky = runs(rng, 0.2, 3), runs(rng, 0.2, 3)
    lucky[0] = runs(rng, 0.6, 1)

    assert (ranks([Sample.of(steady), Sample.of(lucky)])[0] == 1).all()
    assert ranks([Sample.of(steady[:1]), Sample.of(lucky[:1])])[0].tolist() == [2, 1]  # one seed cannot know


def test_neither_order_nor_company_of_equals_changes_a_rank(rng: np.random.Generator) -> None:
    found = [runs(rng, chance, 3) for chance in (0.1, 0.15, 0.2, 0.25, 0.3)]
    low, high = ranks([Sample.of(one) for one in found])
    again = ranks([Sample.of(one[::-1]) for one in found[::-1]])
    assert (again[0][::-1].tolist(), again[1][::-1].tolist()) == (low.tolist(), high.tolist())

    low, high = ranks([Sample.of(one) for one in (*found, found[2])])
    assert (low[2], high[2]) == (low[5], high[5])


def test_of_a_hundred_runs_the_far_apart_are_told_apart(rng: np.random.Generator, record: Make) -> None:
    records = [
        record(attack=f"a{attack}", seed=seed, n=N, n_good=int(mask.sum()), good_images=encode(mask))
        for attack in range(20)
        for seed, mask in enumerate(runs(rng, 0.1 + attack / 50, 5))
    ]
    (board,) = boards_of(records)
    ends = board.rows.set_index("attack")[["rank_low", "rank_high"]]

    assert (ends["rank_low"] <= ends["rank_high"]).all()
    assert ends.loc["a19", "rank_low"] == 1 and ends.loc["a0", "rank_high"] == 20
    assert ends.loc["a19", "rank_high"] < ends.loc["a9", "rank_low"] <= ends.loc["a9", "rank_high"] < 19


# --- boards


def test_no_attack_is_ranked_against_one_that_was_told_more(record: Make) -> None:
    told = {"best": f"{A}+{B}+{C}", "middle": f"{A}+{C}", "least": A, "other": f"{A}+{B}"}
    counts = {"best": 90, "middle": 50, "least": 10, "other": 70}
    records = [record(attack=name, knowledge=told[name], **good(counts[name])) for name in told]
    found = {board.knowledge: ranked(board) for board in boards_of(records)}

    assert list(found) == [A, f"{A}+{B}", f"{A}+{C}", f"{A}+{B}+{C}"]
    assert found[A] == {"least": "1"}
    assert found[f"{A}+{B}"] == {"other": "1", "least": "2"}
    assert found[f"{A}+{C}"] == {"middle": "1", "least": "2"}
    assert found[f"{A}+{B}+{C}"] == {"best": "1", "other": "2", "middle": "3", "least": "4"}
    own = leaderboard(table(records)).set_index("attack")["rank"]
    assert own.to_dict() == {"best": "1", "other": "1", "middle": "1", "least": "1"}


def test_knowledge_is_ignored_when_asked_for(record: Make) -> None:
    records = [record(attack="a", knowledge=A, **good(10)), record(attack="b", knowledge=B, **good(90))]
    (board,) = boards_of(records, across_knowledge=True)

    assert (board.knowledge, ranked(board)) == ("", {"b": "1", "a": "2"})


@pytest.mark.parametrize("name", ["victim", "protocol", "metric_suite", "n"])
def test_boards_do_not_mix(record: Make, name: str) -> None:
    mask = np.arange(101 if name == "n" else 100) < 90
    other = {"n": len(mask), "n_good": 90, "good_images": encode(mask)} | ({} if name == "n" else {name: "other"})
    found = [ranked(board) for board in boards_of([record(**good(10)), record(attack="other", **other)])]

    assert sorted(found, key=str) == [{"kkt": "1"}, {"other": "1"}]


def test_controls_are_ranked_like_attacks(record: Make) -> None:
    (board,) = boards_of([record(**good(20)), record(attack="noise", control=True, **good(21))])

    assert ranked(board) == {"noise": "1-2", "kkt": "1-2"}


def test_a_row_that_does_not_tell_its_images_has_no_rank_and_takes_none(record: Make) -> None:
    unknown = [record(attack="old", n=100, n_good=95), record(attack="half", seed=0, **good(95))]
    unknown.append(record(attack="half", seed=1, n=100, n_good=95))
    (board,) = boards_of([*unknown, record(attack="a", **good(50)), record(attack="b", **good(10))])

    assert ranked(board) == {"half": "", "old": "", "a": "1", "b": "2"}
    assert (
        board.rows.set_index("attack")
        .loc[["half", "old"], ["rank_low", "rank_high", "n_good_low"]]
        .isna()
        .to_numpy()
        .all()
    )


def test_a_failure_counts_as_the_null_control(record: Make) -> None:
    failed = {"status": Status.ERROR, "n": 100, "n_good": None}
    records = [
        record(attack="fails", null_n_good=30, **failed),
        record(attack="fails unknown", null_n_good=None, **failed),
        record(attack="as good as chance", null_n_good=30, **good(30)),
        record(attack="better", null_n_good=30, **good(70)),
    ]
    (board,) = boards_of(records)
    rows = board.rows.set_index("attack")

    assert ranked(board) == {"better": "1", "as good as chance": "2-3", "fails": "2-3", "fails unknown": "4"}
    low, high = rows.loc["fails", ["n_good_low", "n_good_high"]]
    assert low < 30 < high


def test_a_seed_that_fails_widens_the_interval(record: Make) -> None:
    fine = [record(seed=seed, null_n_good=10, **good(80)) for seed in (0, 1)]
    failed = record(seed=2, null_n_good=10, status=Status.ERROR, n=100, n_good=None)
    widths = []
    for last in (record(seed=2, null_n_good=10, **good(80)), failed):
        (sample,) = samples(table([*fine, last])).values()
        low, high = count_interval(sample)
        widths.append(high - low)

    assert sample.share.sum() == pytest.approx((80 + 80 + 10) / 3)
    assert widths[1] > 3 * widths[0]


def test_what_was_skipped_competes_nowhere(record: Make) -> None:
    (board,) = boards_of([record(**good(10)), record(attack="picky", status=Status.SKIPPED)])

    assert ranked(board) == {"kkt": "1"}
