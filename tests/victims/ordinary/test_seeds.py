"""Guessed seeds: the generator is torch's to the bit, and the threshold is not passed by chance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from victims.ordinary.seeds import DRAWS, FALSE_ALARM, guess_seed, torch_uniform, words_of

SEEDS = np.array([0, 1, 42, 123_456, 2**31, 2**32 - 1])


def released(seed: int, share: float) -> np.ndarray:
    """Default weights of a first layer (40, 60) under a seed, `share` of them left and noise of the same size."""
    torch.manual_seed(seed)
    start = nn.Linear(60, 40).weight.detach().numpy()
    noise = np.random.default_rng(seed).standard_normal(start.shape) * start.std()
    return (share * start + (1 - share**2) ** 0.5 * noise).astype(np.float32)


def test_draws_are_torchs_to_the_bit() -> None:
    drawn = torch_uniform(words_of(SEEDS, 1500))
    for column, seed in enumerate(SEEDS.tolist()):
        generator = torch.Generator().manual_seed(seed)
        assert np.array_equal(torch.rand(1500, generator=generator).numpy(), drawn[:, column])


@pytest.mark.parametrize("share", [1.0, 0.5, 0.28])
def test_the_seed_of_default_layers_is_found_under_what_training_added(share: float) -> None:
    guess = guess_seed(released(1234, share), range(3000))
    assert (guess.seed, guess.found) == (1234, True)
    assert guess.correlation == pytest.approx(share, abs=0.1)


def test_a_range_without_the_seed_is_a_clear_no() -> None:
    guess = guess_seed(released(5000, 1.0), range(3000))
    assert not guess.found
    assert guess.correlation < guess.threshold < 0.2


def test_the_threshold_holds_its_false_alarms() -> None:
    """For pure noise the largest correlation of N seeds lies below the threshold, and not far below."""
    weights = np.random.default_rng(0).standard_normal((40, 60)).astype(np.float32)
    correlations = [guess_seed(weights, range(100 * part, 100 * part + 100)) for part in range(30)]
    assert sum(guess.found for guess in correlations) <= 30 * FALSE_ALARM + 1
    assert max(guess.correlation for guess in correlations) > correlations[0].threshold / 2


@pytest.mark.parametrize("value", [0.0, 0.1])
def test_weights_that_are_all_equal_show_no_start(value: float) -> None:
    """Such as those of neurons that were pruned, which may be all that is compared."""
    pruned = np.random.default_rng(0).uniform(-1, 1, (3, DRAWS)).astype(np.float32)
    pruned[0] = value
    guess = guess_seed(pruned, range(10))
    assert not guess.found
    assert abs(guess.correlation) < guess.threshold


@pytest.mark.parametrize(("everywhere", "found"), [(True, True), (False, False)])
def test_a_seed_that_only_the_weights_resemble_that_chose_it_is_none(everywhere: bool, found: bool) -> None:
    """One network in a thousand has a wrong seed above the threshold, such as `faces-mlp-20`, by its first weights."""
    weights = np.random.default_rng(0).standard_normal((100, 60)).astype(np.float32)
    drawn = words_of(np.array([7]), weights.size)
    resembling = weights.size if everywhere else DRAWS
    weights.ravel()[:resembling] += 0.8 * (2 * torch_uniform(drawn)[:resembling, 0] - 1)
    guess = guess_seed(weights, range(200))
    assert (guess.seed, guess.correlation > guess.threshold) == (7, True)
    assert guess.found is found
