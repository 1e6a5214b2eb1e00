"""Guessing the start of a training: which seed drew the initial weights that the released ones still resemble.

torch seeds MT19937 (Matsumoto & Nishimura 1998) with a small integer and draws the first layer's weights from
it. Released weights are c times those draws plus what training added, so the right seed stands out by its correlation
with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor

from victims.equations import architectures
from victims.spec import BuiltSpec

BATCH = 32
"""Seeds that are computed side by side: their draws fit into a cache."""
DRAWS = 2048
"""Weights of the first layer that are compared with every seed's draws."""
CONFIRMED = 16 * DRAWS
"""Weights behind these that are compared with the draws of the best seed alone."""
FALSE_ALARM = 1e-3
"""Probability that a range of seeds without the right one shows a guess."""

Words = NDArray[np.uint32]
Uniform = NDArray[np.float32]


def words_of(seeds: NDArray[np.int64], count: int) -> Words:
    """Return the first `count` words (count, s) that the generator gives out after seeding with each of s integers.

    numpy's legacy generator is torch's: the same seeding, the same words.
    """
    words, generator = np.empty((len(seeds), count), np.uint32), np.random.RandomState(0)
    for row, seed in zip(words, seeds.tolist(), strict=True):
        generator.seed(seed & 0xFFFFFFFF)  # seeding again costs a tenth of a new generator
        row[:] = np.frombuffer(generator.bytes(4 * count), "<u4")
    return words.T


def torch_uniform(words: Words) -> Uniform:
    """Return torch's float32 draws in [0, 1) (k, s) of words (k, s): the low 24 bits of each."""
    uniform: Uniform = (words & np.uint32(0xFFFFFF)).astype(np.float32) * np.float32(2**-24)
    return uniform


@dataclass(frozen=True)
class SeedGuess:
    """The seed whose draws resemble the released weights most.

    Attributes:
        seed: the integer.
        correlation: of the draws with the released weights, in [-1, 1].
        threshold: the correlation that a range without the right seed exceeds with probability `FALSE_ALARM`.
        tried: the number of seeds that were tried.
        confirmed: whether weights that the seed was not chosen by resemble its draws too; true of a layer with too few.
    """

    seed: int
    correlation: float
    threshold: float
    tried: int
    confirmed: bool

    @property
    def found(self) -> bool:
        """Whether the correlation is too large for chance, on the weights that chose the seed and on others."""
        return self.correlation > self.threshold and self.confirmed


def guess_seed(
    first_layer: NDArray[np.float32],
    seeds: Sequence[int],
    progress: Callable[[int], None] = lambda done: None,
    expired: Callable[[], bool] = lambda: False,
) -> SeedGuess:
    """Return the best guess; `found` says whether it is one.

    torch.manual_seed(s) and default layers draw the first layer first, row by row, in proportion to 2 u - 1.

    For a wrong seed the correlation of k numbers is nearly normal with variance 1 / k, and the threshold is the
    quantile that the largest of all seeds' exceeds with probability at most `FALSE_ALARM` (Bonferroni). Of a thousand
    networks one has a wrong seed above it, so the best seed is held against further weights too.

    Args:
        first_layer: W1 (h, d) of the released network.
        seeds: which to try, at least one.
        progress: told how many seeds are done.
        expired: asked after every `BATCH` seeds whether to try no more.

    Raises:
        ValueError: there are no seeds.
    """
    if not len(seeds):
        raise ValueError("no seeds to try")
    count = min(DRAWS, first_layer.size)
    target = _standardised(first_layer, count)
    best, tried = (-np.inf, 0), 0
    for start in range(0, len(seeds), BATCH):
        if start and expired():
            break
        batch = np.asarray(seeds[start : start + BATCH], np.int64)
        values = _correlations(batch, target)
        top = int(values.argmax())
        best = max(best, (float(values[top]), int(batch[top])))
        tried += len(batch)
        progress(tried)
    threshold = float(norm.isf(FALSE_ALARM / tried)) / count**0.5
    correlation, seed = best
    confirmed = correlation <= threshold or _confirmed(first_layer, seed, count)
    return SeedGuess(seed, correlation, threshold, tried, confirmed)


def _confirmed(first_layer: NDArray[np.float32], seed: int, skipped: int) -> bool:
    """Return whether the weights behind the first `skipped` ones resemble a seed's draws; true if they are too few."""
    weights = first_layer.ravel()[: skipped + CONFIRMED]
    rest = weights[skipped:]
    if len(rest) < DRAWS:
        return True
    drawn = torch_uniform(words_of(np.array([seed]), len(weights))[skipped:, 0])
    correlation = float(_standardised(rest, len(rest)) @ _standardised(drawn, len(rest)))
    return correlation > float(norm.isf(FALSE_ALARM)) / math.sqrt(len(rest))


def _standardised(weights: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Return the first `count` weights with mean 0 and norm 1; if all are equal, zeros, which no seed fits."""
    first = weights.ravel()[:count].astype(np.float64)
    first = first - first.mean()
    norm_ = np.linalg.norm(first)
    standardised: NDArray[np.float32] = (first / norm_ if norm_ else first).astype(np.float32)
    return standardised


def _correlations(seeds: NDArray[np.int64], target: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the correlation (s,) of each seed's draws with the standardised weights (k,)."""
    drawn = 2 * torch_uniform(words_of(seeds, len(target))) - 1
    product, total, squares = target @ drawn, drawn.sum(0), np.einsum("ks,ks->s", drawn, drawn)
    correlations: NDArray[np.float32] = (product / np.sqrt(squares - total**2 / len(target))).astype(np.float32)
    return correlations


def drawn_start(
    spec: BuiltSpec, shape: Sequence[int], seed: int, released: Mapping[str, Tensor]
) -> dict[str, Tensor] | None:
    """Return the initial parameters that a seed of torch draws, None where the released network has others.

    A description has a word for the layers with biases, which a user's network need not fit; behind a bias more or less
    torch draws other layers.

    Args:
        spec: the architecture.
        shape: (C, H, W) of an input.
        seed: the guess.
        released: the released parameters by name.
    """
    drawn = architectures.seeded(spec, shape, seed).state_dict()
    return drawn if drawn.keys() == released.keys() else None
