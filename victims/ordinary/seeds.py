"""Guessing the start of a training: which seed drew the initial weights that the released ones still resemble.

torch seeds MT19937 (Matsumoto & Nishimura 1998) with a small integer and draws the first layer's weights from
it. Released weights are c times those draws plus what training added, so the right seed stands out by its correlation
with them. Generators of many seeds are computed side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor

from victims.equations import architectures
from victims.spec import BuiltSpec

STATE, SHIFT = 624, 397
"""The words of the generator's state, and the distance of the words that its recurrence joins."""
BATCH = 128
"""Seeds that are computed side by side: their state fits into a cache."""
DRAWS = 2048
"""Weights of the first layer that are compared with every seed's draws."""
CONFIRMED = 16 * DRAWS
"""Weights behind these that are compared with the draws of the best seed alone."""
FALSE_ALARM = 1e-3
"""Probability that a range of seeds without the right one shows a guess."""

Words = NDArray[np.uint32]
Uniform = NDArray[np.float32]


def seeded(seeds: NDArray[np.int64]) -> Words:
    """Return the generator's state (624, s) after seeding with each of s integers, as C++, torch and numpy seed it."""
    state = np.empty((STATE, len(seeds)), np.uint32)
    state[0] = (seeds & 0xFFFFFFFF).astype(np.uint32)
    for index in range(1, STATE):
        before = state[index - 1]
        state[index] = np.uint32(1812433253) * (before ^ (before >> np.uint32(30))) + np.uint32(index)
    return state


def twist(state: Words) -> None:
    """Advance states (624, s) by 624 words, in place."""
    first = state[0].copy()
    later = np.concatenate([state[1:], first[None]])
    mixed = (state & np.uint32(0x80000000)) | (later & np.uint32(0x7FFFFFFF))
    mixed[-1] &= np.uint32(0x80000000)
    gap = STATE - SHIFT
    added = _advance(mixed)
    state[:gap] = state[SHIFT:] ^ added[:gap]
    for start in (gap, 2 * gap):  # these words join others that this twist has made
        stop = min(start + gap, STATE - 1)
        state[start:stop] = state[start - gap : stop - gap] ^ added[start:stop]
    mixed[-1] |= state[0] & np.uint32(0x7FFFFFFF)
    state[-1] = state[SHIFT - 1] ^ _advance(mixed[-1])


def _advance(words: Words) -> Words:
    advanced: Words = (words >> np.uint32(1)) ^ ((words & np.uint32(1)) * np.uint32(0x9908B0DF))
    return advanced


def tempered(state: Words) -> Words:
    """Return the 624 words (624, s) that a state gives out."""
    words = state ^ (state >> np.uint32(11))
    words ^= (words << np.uint32(7)) & np.uint32(0x9D2C5680)
    words ^= (words << np.uint32(15)) & np.uint32(0xEFC60000)
    words ^= words >> np.uint32(18)
    return words


def words_of(seeds: NDArray[np.int64], count: int) -> Iterator[Words]:
    """Yield the first `count` words or more of each seed, (624, s) at a time."""
    state = seeded(seeds)
    for _ in range(-(-count // STATE)):
        twist(state)
        yield tempered(state)


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
    blocks = [torch_uniform(words)[:, 0] for words in words_of(np.array([seed]), len(weights))]
    drawn = np.concatenate(blocks)[skipped : len(weights)]
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
    sums, done = np.zeros((3, len(seeds)), np.float32), 0
    for words in words_of(seeds, len(target)):
        drawn = 2 * torch_uniform(words[: len(target) - done]) - 1
        own = target[done : done + len(drawn)]
        sums += np.stack([own @ drawn, drawn.sum(0), np.einsum("ks,ks->s", drawn, drawn)])
        done += len(drawn)
    product, total, squares = sums
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
