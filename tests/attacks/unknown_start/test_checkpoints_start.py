"""Two states of a training in the place of a start: the images of the epoch between them out of their difference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attacking import attacked, sgd_network, victim_of
from torch import Tensor

from attacks.base import Attack, Knowledge, Threat
from attacks.cocktail_party import CocktailParty
from attacks.cocktail_party_features import CocktailPartyFeatures
from attacks.knowledge import threat_of
from attacks.unknown_start import NO_CHECKPOINTS
from attacks.unknown_start.start import STAYED, final_weights
from victims.base import Victim
from victims.networks import CNNSpec
from victims.recipes import Augmentation
from victims.spec import VictimSpec

ADAMW = {
    "optimiser": "adamw",
    "lr": 1e-3,
    "weight_decay": 1e-2,
    "batch_size": 10,
    "epochs": 40,
    "checkpoints": (20, 21),
}
NETWORK = sgd_network("photos", 20, (60, 40), lr=0.02, batch_size=10, epochs=10)


def released(**changes: Any) -> VictimSpec:
    training = NETWORK.training.model_copy(update=ADAMW | {"checkpoints": (20, 21)} | changes)
    return NETWORK.model_copy(update={"name": f"{NETWORK.name}-checkpoints", "training": training})


def cosines(victim: Victim, candidates: Tensor) -> Tensor:
    """Of each training image and the candidate nearest to it, (n,)."""
    images = torch.from_numpy(victim.split.inputs).flatten(1)
    return (F.normalize(images) @ F.normalize(candidates.flatten(1)).T).amax(1)


def found_by(variant: str, victim: Victim) -> Tensor:
    kind = CocktailParty
    return attacked(kind(kind.Params(**kind.variants[variant])), victim).candidates


@pytest.mark.parametrize("optimiser", ["sgd", "adam", "adamw"])
def test_what_a_training_saw_in_an_epoch_comes_out_of_two_states_whatever_the_optimiser(optimiser: str) -> None:
    victim = victim_of(released(optimiser=optimiser, lr=0.02 if optimiser == "sgd" else 1e-3))
    assert int((cosines(victim, found_by("checkpoints", victim)) > 0.97).sum()) >= 18


def test_mirrored_and_moved_images_come_out_though_the_optimisers_mean_holds_too_many_ways_of_each() -> None:
    """An epoch sees each image one way: as many directions as images. The mean remembers five, for sixty neurons."""
    augmented = {"augmentation": Augmentation(flip=True, crop=4), "momentum_released": True, "average": 0.9}
    victim = victim_of(released(**augmented))
    assert int((cosines(victim, found_by("checkpoints-crops", victim)) > 0.9).sum()) >= 13
    assert int((cosines(victim, found_by("momentum-crops", victim)) > 0.9).sum()) <= 5


def test_the_last_two_states_count_and_the_weights_of_the_last() -> None:
    victim = victim_of(released(checkpoints=(2, 20, 21)))
    alone = replace(victim, checkpoints=victim.checkpoints[1:])
    torch.testing.assert_close(found_by("checkpoints", victim), found_by("checkpoints", alone))

    class View:
        weights: Any = victim.model.state_dict()
        checkpoints = victim.checkpoints

    view: Any = View
    assert final_weights(view, "known") is View.weights
    assert final_weights(view, "checkpoints") is victim.checkpoints[-1].weights
    assert not torch.equal(View.weights["layers.0.weight"], victim.checkpoints[-1].weights["layers.0.weight"])


@pytest.mark.parametrize("kind", [CocktailParty, CocktailPartyFeatures])
def test_it_needs_the_states_and_no_start(kind: type[Attack[Any]]) -> None:
    attack = kind(kind.Params(start="checkpoints"))
    assert Knowledge.CHECKPOINTS in attack.knowledge
    assert {Knowledge.INITIAL_WEIGHTS, Knowledge.MOMENTUM}.isdisjoint(attack.knowledge)
    assert attack.threat is Threat.CHECKPOINTS is threat_of(attack.knowledge)
    assert threat_of(attack.knowledge | {Knowledge.MOMENTUM}) is Threat.CHECKPOINTS
    assert threat_of(attack.knowledge | {Knowledge.INITIAL_WEIGHTS}) is Threat.START
    assert attack.supports(NETWORK) == NO_CHECKPOINTS == attack.supports(released(checkpoints=(3,)))


def test_behind_a_convolution_features_come_out_of_them() -> None:
    architecture = CNNSpec(channels=(12,), hidden=(100,), outputs=10)
    changes = {"name": "photos-cnn-10-c10-checkpoints", "architecture": architecture, "n": 10}
    victim = victim_of(released(optimiser="sgd", lr=0.02).model_copy(update=changes))
    params = CocktailPartyFeatures.Params(start="checkpoints")
    found = attacked(CocktailPartyFeatures(params), victim)
    assert int((cosines(victim, found.candidates) > 0.8).sum()) >= 7


def test_without_two_states_or_a_gradient_between_them_it_says_so() -> None:
    victim = victim_of(released())
    attack = CocktailParty(CocktailParty.Params(start="checkpoints"))
    for few in (victim.checkpoints[:1], ()):
        with pytest.raises(ValueError, match="no two checkpoints"):
            attacked(attack, replace(victim, checkpoints=few))
    before, after = victim.checkpoints
    zeros = {name: torch.zeros_like(value) for name, value in after.first.items()}
    still = replace(before, weights=after.weights, first=zeros), replace(after, first=zeros, decay=0.0)
    found = attacked(attack, replace(victim, checkpoints=still))
    assert not found.candidates.any()
    assert found.flags == (STAYED,)
