"""Intervals of counts of images and of their differences, and ranks; attacks that cannot be told apart share one.

The statistics are those of the paired bootstrap over training images, seeds of the attack, and retrainings of the
victim: images are drawn anew, the same for every attack, so are each attack's seeds, and so are the retrainings, which
all attacks share. A count is a sum over images, therefore the variance over infinitely many such draws has a closed
form. Nothing is drawn, and no published rank depends on a random number. Three rules make the intervals hold what they
promise (`tests/bench/publish/test_statistics.py` measures them):

* Drawing both seeds and images counts the luck of a single image in a single run three times (Owen 2007, "The
  pigeonhole bootstrap"). It is counted once here: only what the seeds' counts vary by beyond it is added for them, and
  only what the retrainings' counts vary by beyond both is added for those. With one seed, or one training, nothing is
  known of that, and an interval speaks of that run, or that training, alone; with two or three trainings that vary
  more than images do, a 95% interval holds the truth in 83% to 90% of cases (`tests/benchmarks/interval_coverage.py`).
* Where few images are good or all are, the bootstrap is too sure of itself; a few images are added for the variance,
  as Agresti & Coull 1998 do for one count and Bonett & Price 2012 for the difference of two.
* Where it is not recorded which images are good, the variance over images is the largest that the counts allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
COUNT_EXTRA = np.array([1.0, 1.0, 0.0, 0.0])
"""Images added to a single count: two good ones and two others (Agresti & Coull 1998)."""
DIFFERENCE_EXTRA = 2.0
"""Variance added to a difference: that of two images of which each attack alone has one (Bonett & Price 2012)."""


@dataclass(frozen=True)
class Seeds:
    """The runs of one attack on one training of a victim, each with another seed.

    Attributes:
        n: number of training images.
        share: (n,) mean over the runs of each image's value: 1 if it is good and 0 if not, or, for a gain, that less
            the null control's; None where only the counts are known.
        total: sum over images of that mean.
        spread: n times the variance of `share` over images; without it the most that this can be.
        count: number of runs.
        variance: of `total` over seeds, beyond the part that images would have which are good independently of each
            other; all of it where only the counts are known; 0 for one run, where it is not known.
    """

    n: int
    share: Floats | None
    total: float
    spread: float
    count: int
    variance: float

    @classmethod
    def of(cls, values: NDArray[np.bool_] | Floats) -> Seeds:
        """Return the runs of which every image's value is known, (runs, n)."""
        values = np.asarray(values, dtype=float)
        share, count = values.mean(axis=0), len(values)
        variance = 0.0
        if count > 1:
            totals = values.sum(axis=1).var(ddof=1) / count
            variance = max(0.0, float(totals - values.var(axis=0, ddof=1).sum() / count))
        return cls(values.shape[1], share, float(share.sum()), float(share.var() * len(share)), count, variance)

    @classmethod
    def of_counts(cls, n: int, found: Floats, null: Floats) -> Seeds:
        """Return the runs of which only the good images and those of the null control are counted, both (runs,).

        The variance over images is largest where no image is good in both, as far as the counts allow that.
        """
        totals = found - null
        total, either = float(totals.mean()), float(found.mean() + null.mean())
        spread = max(0.0, min(either, 2 * n - either) - total**2 / n)
        variance = float(totals.var(ddof=1) / len(totals)) if len(totals) > 1 else 0.0
        return cls(n, None, total, spread, len(totals), variance)


@dataclass(frozen=True)
class Sample:
    """All runs of one cell, for statistics: those on each training of its victim, by the seed of the training."""

    trainings: Mapping[int, Seeds]

    @property
    def total(self) -> float:
        """The mean over trainings."""
        return float(np.mean([seeds.total for seeds in self.trainings.values()]))

    @property
    def n(self) -> int:
        """The number of training images."""
        return next(iter(self.trainings.values())).n


@dataclass
class _Trainings:
    """Sums over trainings of some numbers' estimates; all arrays have the shape of these numbers.

    Attributes:
        count: trainings so far.
        total: sum of the estimates; `square` of their squares.
        variance: sum of their variances within a training.
        wobble: sum, over the parts of those variances, of the part's square over its degrees of freedom.
    """

    count: Floats
    total: Floats
    square: Floats
    variance: Floats
    wobble: Floats

    @classmethod
    def none(cls, *shape: int) -> _Trainings:
        """Return the sums over no training."""
        return cls(*(np.zeros(shape) for _ in range(5)))

    def add(self, place: tuple[NDArray[np.int_], ...], value: Floats, images: Floats, n: int, seeds: Floats) -> None:
        """Add a training.

        Args:
            place: index of the numbers that have this training.
            value: their estimates.
            images: their variances over n images.
            n: number of images.
            seeds: (2, ...): their variances over seeds, and the squares of these over their degrees of freedom.
        """
        self.count[place] += 1
        self.total[place] += value
        self.square[place] += value**2
        self.variance[place] += images + seeds[0]
        self.wobble[place] += images**2 / max(n - 1, 1) + seeds[1]

    def estimates(self, confidence: float) -> tuple[Floats, Floats]:
        """Return the means over trainings and half the widths of their intervals, infinite where there is no training.

        The widths are those of Student's t with Satterthwaite's degrees of freedom.
        """
        count = np.maximum(self.count, 1)
        mean, within = self.total / count, self.variance / count**2
        between = np.maximum(self.square / count - mean**2, 0) / np.maximum(count - 1, 1)
        beyond = np.where(count > 1, np.maximum(between - within, 0), 0)
        variance = within + beyond
        wobble = self.wobble / count**4 + beyond**2 / np.maximum(count - 1, 1)
        freedom = np.divide(variance**2, wobble, out=np.ones_like(variance), where=wobble > 0)
        width = stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(variance)
        return mean, np.where(self.count > 0, width, np.inf)


def count_interval(sample: Sample) -> tuple[float, float]:
    """Return the interval of the mean count of good images, within [0, n]; it holds the mean.

    Agresti and Coull's interval lies around a centre that is drawn to n / 2. Where few images or nearly all are good,
    the mean can lie outside it, and is then its end.

    Raises:
        ValueError: it is not known which images are good.
    """
    sums = _Trainings.none(1)
    for seeds in sample.trainings.values():
        if seeds.share is None:
            raise ValueError("which images are good is not known")
        shares = np.concatenate([seeds.share, COUNT_EXTRA])
        images = np.array([seeds.n**2 * shares.var() / len(shares)])
        sums.add(_FIRST, np.array([seeds.n * shares.mean()]), images, seeds.n, _seed_terms([seeds]))
    low, high = _interval(sums, 0.0, float(sample.n))
    return min(low, sample.total), max(high, sample.total)


def gain_interval(sample: Sample) -> tuple[float, float]:
    """Return the interval of the mean gain over the null control, within [-n, n]."""
    sums = _Trainings.none(1)
    for seeds in sample.trainings.values():
        images = np.array([seeds.spread + DIFFERENCE_EXTRA])
        sums.add(_FIRST, np.array([seeds.total]), images, seeds.n, _seed_terms([seeds]))
    return _interval(sums, -float(sample.n), float(sample.n))


def difference_interval(old: Sample, new: Sample) -> tuple[float, float]:
    """Return the interval of how many more images are good in `new` than in `old`, of the same n images.

    Only trainings that both have are compared; without any the interval is (-inf, inf).
    """
    difference, width = (float(table[1, 0]) for table in _differences([old, new], CONFIDENCE))
    return difference - width, difference + width


def ranks(competitors: Sequence[Sample]) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return the best and the worst rank (k,) that each of k samples of the same images may have.

    One is better than another if the interval of their difference excludes 0, at a confidence that holds for all
    pairs together (Bonferroni).
    """
    count = len(competitors)
    pairs = max(1, count * (count - 1) // 2)
    difference, width = _differences(competitors, 1 - (1 - CONFIDENCE) / pairs)
    return 1 + (difference < -width).sum(axis=1), count - (difference > width).sum(axis=1)


_FIRST = (np.array([0]),)


def _interval(sums: _Trainings, least: float, most: float) -> tuple[float, float]:
    centre, width = (float(numbers[0]) for numbers in sums.estimates(CONFIDENCE))
    return max(least, centre - width), min(most, centre + width)


def _differences(competitors: Sequence[Sample], confidence: float) -> tuple[Floats, Floats]:
    """Return, for all pairs (k, k), the row's total less the column's and half the width of its interval."""
    sums = _Trainings.none(len(competitors), len(competitors))
    for training in sorted({training for sample in competitors for training in sample.trainings}):
        there = np.array([place for place, sample in enumerate(competitors) if training in sample.trainings])
        found = [competitors[place].trainings[training] for place in there]
        totals, terms = np.array([seeds.total for seeds in found]), _seed_terms(found)
        images = _pair_spreads(found) + DIFFERENCE_EXTRA
        seed_terms = terms[:, :, None] + terms[:, None, :]
        sums.add(np.ix_(there, there), totals[:, None] - totals, images, found[0].n, seed_terms)
    return sums.estimates(confidence)


def _pair_spreads(found: Sequence[Seeds]) -> Floats:
    """Return, for all pairs (k, k), n times the variance over images of the row's shares less the column's.

    Where those of one are not known it is the most that it can be (Minkowski's inequality).
    """
    deviations = np.sqrt([seeds.spread for seeds in found])
    spreads = (deviations[:, None] + deviations) ** 2
    known = np.array([place for place, seeds in enumerate(found) if seeds.share is not None], dtype=int)
    shares = [seeds.share for seeds in found if seeds.share is not None]
    if shares:
        stacked = np.stack(shares)
        centred = stacked - stacked.mean(axis=1, keepdims=True)
        products = centred @ centred.T
        squares = np.diag(products)
        spreads[np.ix_(known, known)] = np.maximum(squares[:, None] + squares - 2 * products, 0)
    return np.asarray(spreads, dtype=np.float64)


def _seed_terms(found: Sequence[Seeds]) -> Floats:
    """Return (2, k): each variance over seeds, and its square over its degrees of freedom."""
    variance = np.array([seeds.variance for seeds in found])
    freedom = np.array([max(seeds.count - 1, 1) for seeds in found])
    return np.stack([variance, variance**2 / freedom])
