"""An attack behind convolutions under a budget, and interrupted: also twice, as a killed run may be."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from attacking import CPU, Left, Recorded, attacked, context, sgd_network, victim_of

from attacks import context as contexts
from attacks.base import AttackContext
from attacks.cocktail_party_features import CocktailPartyFeatures
from attacks.independent_components import images as searches
from attacks.independent_components.params import CocktailPartyFeaturesParams
from bench.run.disclosure import view_of
from victims.exposure.reading import exposure
from victims.spec import CNNSpec

PHOTOS = sgd_network("photos", 20, (60, 40), lr=0.02, batch_size=5, epochs=10).model_copy(
    update={"name": "photos-cnn-20-c10-sgd", "architecture": CNNSpec(channels=(8,), hidden=(60,), outputs=10)}
)
PARAMS = CocktailPartyFeaturesParams()


def test_an_attack_that_is_interrupted_goes_on_as_if_it_had_not_been(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "CHECKPOINT_SECONDS", 0.0)
    for steps in ("NEAREST_STEPS", "JOINT_STEPS"):
        monkeypatch.setattr(searches, steps, 3)
    params = CocktailPartyFeaturesParams(rounds=1, steps=40, round_steps=20, joint_rounds=2, image_steps=6)
    victim, attack = victim_of(PHOTOS), CocktailPartyFeatures(params)
    view, whole = view_of(victim, attack.knowledge, CPU), attacked(attack, victim)
    recorded = Recorded((2, 25, 28, 31))
    attack.reconstruct(view, replace(context(), checkpoints=recorded))
    assert len(recorded.kept) == 4
    for checkpoint in recorded.kept.values():
        again = attack.reconstruct(view, replace(context(seed=5), checkpoints=Left(checkpoint)))
        assert torch.equal(again.candidates, whole.candidates)
        assert again.grad_evals == whole.grad_evals
    descent = next(one for one in recorded.kept.values() if "held.joint.coordinates" in one.state)
    twice = Recorded(range(1, 7), descent)  # the second life of a run that was killed in a joint descent
    attack.reconstruct(view, replace(context(seed=5), checkpoints=twice))
    for checkpoint in twice.kept.values():
        again = attack.reconstruct(view, replace(context(seed=6), checkpoints=Left(checkpoint)))
        assert torch.equal(again.candidates, whole.candidates)


def test_a_budget_ends_it_with_what_it_has() -> None:
    ctx = AttackContext(CPU, torch.Generator().manual_seed(0), lambda *_, **__: None, contexts.Budget(steps=20))
    attack = CocktailPartyFeatures(PARAMS)
    found = attack.reconstruct(view_of(victim_of(PHOTOS), attack.knowledge, CPU), ctx)
    assert found.grad_evals == 20
    assert "the separation did not settle" in found.flags


def test_a_budget_leaves_time_for_the_images() -> None:
    """The separation alone would take more than all of it."""
    ctx = AttackContext(CPU, torch.Generator().manual_seed(0), lambda *_, **__: None, contexts.Budget(steps=200))
    attack = CocktailPartyFeatures(PARAMS)
    found = attack.reconstruct(view_of(victim_of(PHOTOS), attack.knowledge, CPU), ctx)
    assert found.grad_evals == 200
    assert found.confidence is not None
    assert float(found.confidence.median()) > 0.5


@pytest.mark.parametrize(("steps", "cut"), [(40, True), (2000, False)])
def test_a_separation_that_is_cut_short_has_spent_the_budget_though_the_images_ended(steps: int, cut: bool) -> None:
    ctx = AttackContext(CPU, torch.Generator().manual_seed(0), lambda *_, **__: None, contexts.Budget(steps=steps))
    attack = CocktailPartyFeatures(CocktailPartyFeaturesParams(rounds=1, round_steps=5, image_steps=5))
    attack.reconstruct(view_of(victim_of(PHOTOS), attack.knowledge, CPU), ctx)
    assert ctx.stopped == cut


def test_a_start_of_which_the_weights_show_nothing_is_not_doubted() -> None:
    card = exposure(victim_of(PHOTOS), seeds=1)
    assert card.spectrum is None  # its first fully connected layer is behind a front, and not read
    forgotten = CocktailPartyFeatures(CocktailPartyFeaturesParams(start="forgotten"))
    assert forgotten.doubt(card) is None
    assert CocktailPartyFeatures(PARAMS).doubt(card) is None
