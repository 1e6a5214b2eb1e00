"""How often a 95% interval over few retrainings holds the truth: what the pages say of it.

    python tests/benchmarks/interval_coverage.py

A training moves the log odds of all 500 images by a normal number of deviation `luck`, so that trainings vary by more
than images do: not at all, about as much, and several times as much. The truth is the mean over all trainings.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from bench.publish.statistics import Sample, Seeds, count_interval

N = 500
DRAWS = 4_000
LUCK = (0.0, 0.1, 0.3, 1.0)
TRAININGS = (2, 3, 5)
MEAN = 0.3


def chances(odds: NDArray[np.float64], luck: float, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return the chance of each image to be good on each of so many trainings, (count, n)."""
    moved: NDArray[np.float64] = 1 / (1 + np.exp(-odds - luck * rng.standard_normal((count, 1))))
    return moved


def coverage(luck: float, trainings: int, rng: np.random.Generator) -> float:
    """Return the share of intervals of one run on each of some trainings that hold the mean over all trainings."""
    share = rng.beta(MEAN, 1 - MEAN, N).clip(1e-9, 1 - 1e-9)
    odds = np.log(share / (1 - share))
    truth = float(chances(odds, luck, 20_000, rng).sum(1).mean())
    held = 0
    for _ in range(DRAWS):
        found = [rng.permutation(row) for row in chances(odds, luck, trainings, rng)]
        good = [rng.random((1, N)) < row for row in found]
        low, high = count_interval(Sample({seed: Seeds.of(one) for seed, one in enumerate(good)}))
        held += low <= truth <= high
    return held / DRAWS


def main() -> None:
    """Print a line for each number of trainings, a column for each luck."""
    sys.stdout.write("\t".join(["trainings", *(f"luck {luck:g}" for luck in LUCK)]) + "\n")
    for trainings in TRAININGS:
        rng = np.random.default_rng(0)
        found = (f"{coverage(luck, trainings, rng):.3f}" for luck in LUCK)
        sys.stdout.write("\t".join([str(trainings), *found]) + "\n")


if __name__ == "__main__":
    main()
