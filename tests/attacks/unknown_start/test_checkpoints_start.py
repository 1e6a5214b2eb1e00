"""Two states of a training in the place of a start: the images of the epoch between them out of their difference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, Left, Recorded, attacked, context, cosines, sgd_network, victim_of
from torch import Tensor

from attacks import context as contexts
from attacks.base import Attack, Knowledge, Reconstruction, Threat, VictimView
from attacks.cocktail_party import CocktailParty
from attacks.cocktail_party_features import CocktailPartyFeatures
from attacks.knowledge import threat_of
from attacks.known_start.no_image import STILL
from attacks.unknown_start import NO_CHECKPOINTS, NO_SNAPSHOTS
from attacks.unknown_start.stretches import BETWEEN, BETWEEN_THREE, STAYED
from bench.run.disclosure import evenly_spaced, view_of
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
MLP = NETWORK.architecture
STATES = CocktailParty.Params(start="checkpoints", steps=40, free_steps=60)


def released(**changes: Any) -> VictimSpec:
    training = NETWORK.training.model_copy(update=ADAMW | {"checkpoints": (20, 21)} | changes)
    return NETWORK.model_copy(update={"name": f"{NETWORK.name}-checkpoints", "training": training})


def assert_goes_on(attack: Attack[Any], victim: Victim) -> None:
    """Interrupted in a stretch, the first or a later one, an attack goes on as if it had not been."""
    view, whole = view_of(victim, attack.knowledge, CPU), attacked(attack, victim)
    recorded = Recorded(range(1, 100))
    attack.reconstruct(view, replace(context(), checkpoints=recorded))
    later = [one for one in recorded.kept.values() if "ended.0.images" in one.state]
    assert 0 < len(later) < len(recorded.kept)
    for checkpoint in (recorded.kept[1], later[0], later[-1]):
        again = attack.reconstruct(view, replace(context(seed=5), checkpoints=Left(checkpoint)))
        assert torch.equal(again.candidates, whole.candidates)
        assert (again.grad_evals, again.flags) == (whole.grad_evals, whole.flags)


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


def test_each_two_states_that_follow_one_another_show_their_views_of_the_images() -> None:
    """The first two are seen as if there were no others, and what the second two show follows."""
    victim = victim_of(released(checkpoints=(20, 21, 22)))
    states = victim.checkpoints
    first, second = (found_by("checkpoints", replace(victim, checkpoints=two)) for two in (states[:2], states[1:]))
    both = found_by("checkpoints", victim)
    assert torch.equal(both[: len(first)], first)
    alike = F.normalize(both[len(first) :].flatten(1)) @ F.normalize(second.flatten(1)).T
    torch.testing.assert_close(alike.amax(1), torch.ones(len(second)), atol=1e-2, rtol=0)


@pytest.mark.parametrize("rounds", [0, 1])
def test_an_attack_that_is_interrupted_in_a_later_stretch_goes_on_as_if_it_had_not_been(
    rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contexts, "CHECKPOINT_SECONDS", 0.0)
    params = STATES.model_copy(update={"rounds": rounds, "round_steps": 5})
    victim, attack = victim_of(released(checkpoints=(20, 21, 22))), CocktailParty(params)
    assert_goes_on(attack, victim)


def test_a_stretch_begins_at_its_own_rows_after_another_one_whose_rounds_ended() -> None:
    victim = victim_of(released(checkpoints=(20, 21, 22)))
    params = STATES.model_copy(update={"rounds": 1, "round_steps": 5})
    alone = attacked(CocktailParty(params), replace(victim, checkpoints=victim.checkpoints[1:])).candidates
    both = attacked(CocktailParty(params), victim).candidates
    alike = F.normalize(both[-len(alone) :].flatten(1)) @ F.normalize(alone.flatten(1)).T
    assert int((alike.amax(1) > 0.9).sum()) >= 15


def test_stretches_share_a_budget() -> None:
    victim, attack = victim_of(released(checkpoints=(20, 21, 22))), CocktailParty(STATES)
    ctx = replace(context(), budget=contexts.Budget(steps=20))
    found = attack.reconstruct(view_of(victim, attack.knowledge, CPU), ctx)
    assert found.grad_evals == 20
    assert ctx.stopped
    assert found.confidence is not None
    each = found.confidence.unflatten(0, (2, -1)).mean(1)
    assert float(each.min()) > 0.72  # .71 is what a mixture has that no step has changed


@pytest.mark.parametrize(
    ("optimiser", "snapshots", "least"), [("sgd", (38,), 18), ("adamw", (38,), 11), ("sgd", (20, 30), 18)]
)
def test_releases_of_the_weights_show_images_without_a_state(
    optimiser: str, snapshots: tuple[int, ...], least: int
) -> None:
    """Adam's steps are scaled entry by entry, by what no release tells."""
    recipe = {"optimiser": optimiser, "lr": 0.02 if optimiser == "sgd" else 1e-3}
    victim = victim_of(released(**recipe, checkpoints=(), snapshots=snapshots))
    assert not victim.checkpoints
    found = attacked(CocktailParty(CocktailParty.Params(start="snapshots")), victim)
    assert found.flags[0].startswith(BETWEEN if len(snapshots) == 1 else BETWEEN_THREE)
    assert int((cosines(victim, found.candidates) > 0.9).sum()) >= least


def test_the_most_releases_at_one_distance_are_told() -> None:
    for epochs, count in (((1, 3, 10), 2), ((36, 38, 40), 3), ((1, 20, 30, 40), 3), ((2, 3), 2)):
        assert epochs[evenly_spaced(epochs)] == epochs[-count:]
    midway = (150, 151, 152, 300)
    assert midway[evenly_spaced(midway)] == (150, 151, 152)
    assert not ()[evenly_spaced(())]
    victim = victim_of(released(checkpoints=(), snapshots=(3, 20, 30)))
    told = view_of(victim, frozenset({Knowledge.SNAPSHOTS}), CPU).snapshots
    assert len(told) == 3
    for weights, one in zip(told, (*victim.earlier[1:], victim.model.state_dict()), strict=True):
        assert torch.equal(weights["layers.0.weight"], one["layers.0.weight"])
    stopped = view_of(replace(victim, earlier=victim.earlier[:2]), frozenset({Knowledge.SNAPSHOTS}), CPU).snapshots
    for weights, one in zip(stopped, (victim.earlier[1], victim.model.state_dict()), strict=True):
        assert torch.equal(weights["layers.0.weight"], one["layers.0.weight"])


@pytest.mark.parametrize("kind", [CocktailParty, CocktailPartyFeatures])
def test_with_releases_alone_it_needs_no_state(kind: type[Attack[Any]]) -> None:
    attack = kind(kind.Params(start="snapshots"))
    assert attack.knowledge == (kind.needs | {Knowledge.SNAPSHOTS}) - {Knowledge.INITIAL_WEIGHTS}
    assert attack.threat is Threat.SNAPSHOTS is threat_of(attack.knowledge)
    assert threat_of(attack.knowledge | {Knowledge.CHECKPOINTS}) is Threat.CHECKPOINTS
    assert attack.supports(NETWORK) == NO_SNAPSHOTS
    architecture = CNNSpec(channels=(4,), hidden=(20,), outputs=10) if kind is CocktailPartyFeatures else MLP
    for changes in ({}, {"checkpoints": (), "snapshots": (3,)}):
        assert attack.supports(released(**changes).model_copy(update={"architecture": architecture})) is None


@pytest.mark.parametrize("kind", [CocktailParty, CocktailPartyFeatures])
def test_it_needs_the_states_and_no_start(kind: type[Attack[Any]]) -> None:
    attack = kind(kind.Params(start="checkpoints"))
    assert Knowledge.CHECKPOINTS in attack.knowledge
    assert {Knowledge.INITIAL_WEIGHTS, Knowledge.MOMENTUM}.isdisjoint(attack.knowledge)
    assert attack.threat is Threat.CHECKPOINTS is threat_of(attack.knowledge)
    assert threat_of(attack.knowledge | {Knowledge.MOMENTUM}) is Threat.CHECKPOINTS
    assert threat_of(attack.knowledge | {Knowledge.INITIAL_WEIGHTS}) is Threat.START
    assert attack.supports(NETWORK) == NO_CHECKPOINTS == attack.supports(released(checkpoints=(3,)))


def behind_a_convolution(**changes: Any) -> Victim:
    architecture = CNNSpec(channels=(12,), hidden=(100,), outputs=10)
    described = {"name": "photos-cnn-10-c10-checkpoints", "architecture": architecture, "n": 10}
    return victim_of(released(**changes).model_copy(update=described))


def test_behind_a_convolution_images_come_out_of_each_two_states() -> None:
    """Features are those of the state itself: a step away, where the difference begins, the images have others."""
    victim = behind_a_convolution(checkpoints=(20, 21, 22))
    found = attacked(CocktailPartyFeatures(CocktailPartyFeatures.Params(start="checkpoints")), victim).candidates
    assert min(int((cosines(victim, one) > 0.9).sum()) for one in found.chunk(2)) >= 7
    params = CocktailPartyFeatures.Params(start="checkpoints", point=0.5)
    away = attacked(CocktailPartyFeatures(params), victim).candidates
    assert float(cosines(victim, away).mean()) < float(cosines(victim, found).mean()) - 0.1


def test_behind_a_convolution_an_attack_that_is_interrupted_goes_on_as_if_it_had_not_been(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contexts, "CHECKPOINT_SECONDS", 0.0)
    victim = behind_a_convolution(checkpoints=(20, 21, 22))
    lengths = {"steps": 5, "free_steps": 10, "round_steps": 5, "image_steps": 10}
    attack = CocktailPartyFeatures(CocktailPartyFeatures.Params(start="checkpoints", **lengths))
    assert_goes_on(attack, victim)


def test_behind_a_convolution_releases_show_images_unless_nothing_moved_between_them() -> None:
    victim = behind_a_convolution(optimiser="sgd", lr=0.02, checkpoints=(20, 21, 22))
    attack = CocktailPartyFeatures(CocktailPartyFeatures.Params(start="snapshots", image_steps=100))
    first, second, third = (state.weights for state in victim.checkpoints)
    architecture = view_of(victim, attack.knowledge, CPU).architecture

    def found(*releases: dict[str, Tensor]) -> Reconstruction:
        facts: dict[Knowledge, Any] = {Knowledge.ARCHITECTURE: architecture, Knowledge.SNAPSHOTS: releases}
        return attack.reconstruct(VictimView(facts, attack.knowledge), context())

    assert int((cosines(victim, found(first, second, third).candidates) > 0.8).sum()) >= 6
    still = found(first, second, second)
    assert not still.candidates.any()
    assert STILL in still.flags


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
