"""The informed membership test: certain for the targets themselves, chance for what says nothing of its target."""

from __future__ import annotations

import pytest
import torch

from bench.scoring.membership import membership_auc


def images(count: int, seed: int) -> torch.Tensor:
    return torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(seed))


def test_reconstructions_tell_members_and_noise_does_not() -> None:
    targets, noise = images(400, 0), images(400, 1)
    assert membership_auc(targets, targets) == 1
    assert membership_auc(noise, targets) == pytest.approx(0.5, abs=0.06)
    assert membership_auc(targets.mean(0).expand_as(targets), targets) == pytest.approx(0.5, abs=0.01)
    assert 0.9 < (membership_auc(targets + 0.5 * (noise - 0.5), targets) or 0) <= 1


def test_a_reconstruction_of_the_other_record_is_worse_than_chance() -> None:
    targets = images(50, 0)
    assert membership_auc(targets.roll(1, 0), targets) == 0


def test_a_single_target_has_no_other() -> None:
    assert membership_auc(images(1, 0), images(1, 0)) is None


def test_of_records_that_were_deleted_together_the_test_says_nothing() -> None:
    """Candidates in the order that fits the members would tell members even if they were noise."""
    assert membership_auc(images(4, 0), images(4, 0), together=2) is None
