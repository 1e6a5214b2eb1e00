"""The protocol `hayes2023`: which of N records a reconstruction is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from attacking import victim_of

from bench.scoring import PROTOCOLS, Matcher, Truth, score
from bench.scoring.evaluation import Reference, count_scores, mean_image_scores
from victims.errors import UserError
from victims.informed.spec import Descent, InformedSpec
from victims.recipes import Privacy

NAMING = PROTOCOLS["hayes2023"]
SPEC = InformedSpec(
    name="digits-elu10-30-trace",
    dataset="digits",
    n=30,
    targets=96,
    training=Descent(epochs=1, privacy=Privacy()),
    prior=8,
)


def reference() -> Reference:
    return Reference.of(victim_of(SPEC))


def test_an_image_is_good_if_it_is_nearer_to_its_own_record_than_to_any_other_of_the_prior() -> None:
    images, decoys = torch.zeros(4, 1, 2, 2), torch.ones(4, 2, 1, 2, 2)
    decoys[:, 1] = 0.6
    truth = Truth(images, torch.zeros(1, 2, 2), torch.zeros(4), decoys=decoys)  # an oracle that has all of them
    levels = torch.tensor([0.29, 0.31, 0.9, torch.nan])
    scores = score(NAMING, Matcher(levels[:, None, None, None].expand(4, 1, 2, 2).clone(), truth))
    assert scores.good.tolist() == [True, False, False, False]


def test_halfway_to_another_record_is_not_nearer() -> None:
    truth = Truth(torch.zeros(4, 1, 2, 2), torch.zeros(1, 2, 2), torch.zeros(4), decoys=torch.ones(4, 1, 1, 2, 2))
    assert score(NAMING, Matcher(torch.full((4, 1, 2, 2), 0.5), truth)).n_good == 0


def test_the_right_names_are_good_and_the_wrong_ones_are_not() -> None:
    found = reference()
    truth = found.truth
    assert truth.decoys is not None
    candidates = truth.images.clone()
    candidates[::3] = truth.decoys[::3, 2]
    assert count_scores(NAMING, found.matcher(candidates))["n_good"].n_good == 64


def test_one_image_for_all_is_right_for_one_of_n() -> None:
    found = reference()
    assert mean_image_scores(NAMING, found.truth)["n_good"].n_good == 96 // 8
    for seed in range(5):
        guess = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(seed)).expand(96, 1, 8, 8)
        assert count_scores(NAMING, found.matcher(guess))["n_good"].n_good == 96 // 8


def test_without_a_prior_nothing_can_be_named() -> None:
    truth = replace(reference().truth, decoys=None)
    with pytest.raises(UserError, match="hayes2023 asks which record of a prior it is; this victim has no prior"):
        score(NAMING, Matcher(truth.images, truth))
