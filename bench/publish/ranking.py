"""Intervals of the count of good images, and ranks; attacks that cannot be told apart share one.

The statistics are those of the paired bootstrap over training images and seeds: images are drawn anew, the same for
every attack, and so are each attack's seeds. A count is a sum over images, therefore the variance over infinitely many
such draws has a closed form. Nothing is drawn, and no published rank depends on a random number. Two corrections make
the intervals hold what they promise (`tests/bench/test_ranking.py` measures them):

* Drawing both seeds and images counts the luck of a single image in a single run three times (Owen 2007, "The
  pigeonhole bootstrap"). It is counted once here: only what the seeds' counts vary by beyond it is added for them.
  With one seed nothing is known of that, and an interval speaks of that run alone; with two or three, where seeds
  matter more than images, a 95% interval holds the truth in about 85% of cases.
* Where few images are good or all are, the bootstrap is too sure of itself; a few images are added for the variance,
  as Agresti & Coull 1998 do for one count and Bonett & Price 2012 for the difference of two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from bench.store.good_images import decode
from bench.store.records import CELL, ScoreState, Status

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
BOARD = ("victim", "n", "protocol", "metric_suite")
"""What the rows of one board have in common, knowledge aside."""
VERSIONS = {"attack": "attack_version", "victim": "victim_version", "protocol": "protocol_version"}
"""What has a version, by the column of its name: the column of its version."""
COUNT_EXTRA = np.array([1.0, 1.0, 0.0, 0.0])
"""Images added to a single count: two good ones and two others (Agresti & Coull 1998)."""
DIFFERENCE_EXTRA = 2.0
"""Variance added to a difference: that of two images of which each attack alone has one (Bonett & Price 2012)."""


@dataclass(frozen=True)
class Sample:
    """The runs of one cell, for statistics.

    Attributes:
        share: (n,) share of the runs in which each training image is good, in [0, 1].
        seeds: number of runs.
        seed_variance: variance of the mean count that comes from the seeds, beyond that of images which are good or
            not independently of each other; 0 for one run, of which it cannot be known.
    """

    share: Floats
    seeds: int
    seed_variance: float

    @classmethod
    def of(cls, good: NDArray[np.bool_] | Floats) -> Sample:
        """Return the sample of runs (seeds, n), good images being 1 and others 0."""
        good = np.asarray(good, dtype=float)
        share, seeds = good.mean(axis=0), len(good)
        if seeds == 1:
            return cls(share, 1, 0.0)
        counts = good.sum(axis=1).var(ddof=1) / seeds
        independent = good.var(axis=0, ddof=1).sum() / seeds
        return cls(share, seeds, max(0.0, float(counts - independent)))


@dataclass(frozen=True)
class Board:
    """The attacks that compete on one victim with one state of knowledge.

    Attributes:
        victim: its name, likewise `protocol` and `metric_suite`.
        n: number of training images.
        knowledge: what the attacks may know at most, joined by "+"; empty on a board across all knowledge.
        rows: the rows of the leaderboard that compete, in its order, their `rank` being that on this board, and
            `rank_low` and `rank_high`, its ends, NaN where it is unknown.
    """

    victim: str
    n: int
    protocol: str
    metric_suite: str
    knowledge: str
    rows: pd.DataFrame


def current(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of a runs.csv that no higher version supersedes: of the same attack, victim or protocol.

    What was skipped supersedes nothing.
    """
    kept = pd.Series(True, index=runs.index)
    for name, column in VERSIONS.items():
        versions = runs[column].fillna(1)
        ended = versions.where(runs["status"] != Status.SKIPPED)
        kept &= ~(versions < ended.groupby(runs[name]).transform("max"))
    return runs[kept]


def samples(runs: pd.DataFrame) -> dict[tuple[str, ...], Sample]:
    """Return the sample of each cell of a runs.csv of which it is known which images are good, by its current runs.

    A run that failed, or is not scored, has no list of good images. It counts as its null control, or 0 where none was
    computed, spread evenly over the images, since nothing says which they would be.

    Raises:
        ValueError: a list of good images does not fit its row.
    """
    found = {}
    told = ["status", "scores", "n_good", "n", "null_n_good", "good_images"]
    runs = current(runs)
    ended = runs.loc[runs["status"] != Status.SKIPPED, [*CELL, *told]]
    for cell, rows in ended.groupby(list(CELL), sort=False):
        columns = (rows[name] for name in ("n", "null_n_good", "good_images"))
        good = [_good_images(*row) for row in zip(unsuccessful(rows), *columns, strict=True)]
        known = [mask for mask in good if mask is not None]
        if len(known) == len(good) and rows["n"].nunique() == 1:
            found[tuple(map(str, cell))] = Sample.of(np.stack(known))
    return found


def unsuccessful(runs: pd.DataFrame) -> pd.Series[bool]:
    """Return which runs of a table count as their null control: those that failed, or never could be scored."""
    return (runs["status"] != Status.OK) | ((runs["scores"] == ScoreState.FAILED) & runs["n_good"].isna())


def _good_images(failed: bool, n: int, null: float, text: str) -> Floats | None:
    if failed:
        return np.full(n, 0.0 if np.isnan(null) else null / n)
    return decode(text, n).astype(float) if text else None


def count_interval(sample: Sample, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the interval of the mean count of good images, within [0, n]."""
    n = len(sample.share)
    shares = np.concatenate([sample.share, COUNT_EXTRA])
    centre, images = n * float(shares.mean()), n**2 * shares.var() / len(shares)
    seeds, wobble = _seed_terms([sample])[:, 0]
    width = float(_half_width(images, seeds, wobble, n, confidence))
    return max(0.0, centre - width), min(float(n), centre + width)


def difference_interval(old: Sample, new: Sample, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the interval of how many more images are good in `new` than in `old`, of the same n images."""
    difference, width = (float(table[1, 0]) for table in _differences([old, new], confidence))
    return difference - width, difference + width


def ranks(competitors: Sequence[Sample], confidence: float = CONFIDENCE) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return the best and the worst rank (k,) that each of k samples of the same images may have.

    One is better than another if the interval of their difference excludes 0, at a confidence that holds for all
    pairs together (Bonferroni).
    """
    count = len(competitors)
    pairs = max(1, count * (count - 1) // 2)
    difference, width = _differences(competitors, 1 - (1 - confidence) / pairs)
    return 1 + (difference < -width).sum(axis=1), count - (difference > width).sum(axis=1)


def boards(
    leaderboard: pd.DataFrame, known: Mapping[tuple[str, ...], Sample], across_knowledge: bool = False
) -> list[Board]:
    """Return the boards of a leaderboard: one for each victim, protocol, metric suite and set of knowledge that occurs.

    Who knows more may ignore it, who knows less cannot make it up: on the board of a set compete all attacks that need
    no more than that set, so none is ranked against one that was told more.

    Args:
        leaderboard: one row a cell, with `knowledge` and what it takes to name the cell and its board.
        known: the samples of the cells; a row without one has no rank, and none counts it.
        across_knowledge: one board for all, whatever they were told.
    """
    found = []
    for _, rows in leaderboard.groupby(list(BOARD), sort=False):
        shared = {name: rows[name].iloc[0] for name in BOARD}
        needs = rows["knowledge"].map(_items)
        told = [frozenset().union(*needs)] if across_knowledge else sorted(set(needs), key=_fewest_first)
        for most in told:
            knowledge = "" if across_knowledge else "+".join(sorted(most))
            competitors = rows[[items <= most for items in needs]]
            found.append(Board(**shared, knowledge=knowledge, rows=_ranked(competitors, known)))
    return found


def _items(knowledge: str) -> frozenset[str]:
    return frozenset(filter(None, knowledge.split("+")))


def _fewest_first(items: frozenset[str]) -> tuple[int, list[str]]:
    return len(items), sorted(items)


def _ranked(rows: pd.DataFrame, known: Mapping[tuple[str, ...], Sample]) -> pd.DataFrame:
    """Return the rows of one board with rank, rank_low and rank_high."""
    cells = list(rows[list(CELL)].itertuples(index=False, name=None))
    ranked = [cell in known for cell in cells]
    ends = np.full((2, len(cells)), np.nan)
    if any(ranked):
        ends[:, ranked] = ranks([known[cell] for cell in cells if cell in known])
    text = ["" if np.isnan(low) else f"{low:.0f}" if low == high else f"{low:.0f}-{high:.0f}" for low, high in ends.T]
    return rows.assign(rank=text, rank_low=ends[0], rank_high=ends[1])


def _differences(competitors: Sequence[Sample], confidence: float) -> tuple[Floats, Floats]:
    """Return, for all pairs (k, k), the row's count less the column's and half the width of its interval."""
    shares = np.stack([sample.share for sample in competitors])
    counts, centred = shares.sum(axis=1), shares - shares.mean(axis=1, keepdims=True)
    products = centred @ centred.T
    squares = np.diag(products)
    images = np.maximum(squares[:, None] + squares - 2 * products, 0) + DIFFERENCE_EXTRA
    variance, wobble = (terms[:, None] + terms for terms in _seed_terms(competitors))
    return counts[:, None] - counts, _half_width(images, variance, wobble, shares.shape[1], confidence)


def _seed_terms(competitors: Sequence[Sample]) -> Floats:
    """Return (2, k): each seed variance, and its square over its degrees of freedom."""
    variance = np.array([sample.seed_variance for sample in competitors])
    freedom = np.array([max(sample.seeds - 1, 1) for sample in competitors])
    return np.stack([variance, variance**2 / freedom])


def _half_width(images: Floats, seeds: Floats, wobble: Floats, n: int, confidence: float) -> Floats:
    """Return half the width of an interval, from Student's t with Satterthwaite's degrees of freedom."""
    variance = images + seeds
    freedom = variance**2 / (images**2 / max(n - 1, 1) + wobble)
    return np.asarray(stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(variance), dtype=np.float64)
