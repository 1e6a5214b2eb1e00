"""Behind convolutions: maps are separated as pictures are, images found by their features, and photographs return."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, Interrupted, Memory, attacked, context, sgd_network, victim_of
from torch import Tensor

from attacks import context as contexts
from attacks.base import AttackContext
from attacks.cocktail_party_features import INNER_STAYED, SMALL_MAPS, CocktailPartyFeatures
from attacks.independent_components.maps import images_of, separated
from attacks.independent_components.params import CocktailPartyFeaturesParams
from attacks.independent_components.parts import Parts
from attacks.known_start.front import FeatureExtractor
from bench.run.disclosure import view_of
from victims.equations.architectures import seeded
from victims.spec import CNNSpec, MLPSpec, VictimSpec

SHAPE, MAPS = (3, 32, 32), (8, 16, 16)
SMALL = CNNSpec(channels=(8,), hidden=(60,), outputs=10)
PHOTOS = sgd_network("photos", 20, (60, 40), lr=0.02, batch_size=5, epochs=10).model_copy(
    update={"name": "photos-cnn-20-c10-sgd", "architecture": SMALL}
)
PARAMS = CocktailPartyFeaturesParams()


def front() -> FeatureExtractor:
    """Return a small front with random weights."""
    state = seeded(SMALL, SHAPE, 1).state_dict()
    return FeatureExtractor.of(lambda: seeded(SMALL, SHAPE, 1), state, state, 0.5, 0)


def photographs() -> Tensor:
    return torch.from_numpy(victim_of(PHOTOS).split.inputs).float()


def cosines(found: Tensor, truth: Tensor) -> Tensor:
    """Return the cosine (n,) of each true row with the row that is nearest to it, its sign too."""
    return (F.normalize(truth.flatten(1)) @ F.normalize(found.flatten(1)).T).amax(1)


def test_mixtures_of_feature_maps_are_separated_with_their_signs() -> None:
    features = front()(photographs())
    assert front().maps(SHAPE) == MAPS
    mixing = torch.randn(20, 20, generator=torch.Generator().manual_seed(0))
    basis = torch.linalg.qr((mixing @ features).T).Q.T.contiguous()
    found = separated(basis, MAPS, PARAMS, Parts(context(), 500))
    assert found.settled
    assert int((cosines(found.features, features) > 0.9).sum()) >= 17


def test_images_are_found_by_the_directions_of_their_features() -> None:
    images = photographs()[:5]
    features = front()(images) * torch.tensor([[0.1], [1.0], [2.0], [5.0], [50.0]])
    found, reached = images_of(features, front(), SHAPE, PARAMS, Parts(context(), 200))
    assert float(reached.min()) > 0.95
    assert float(F.cosine_similarity(found.flatten(1), images.flatten(1)).min()) > 0.7


def test_photographs_come_back() -> None:
    victim = victim_of(PHOTOS)
    found = attacked(CocktailPartyFeatures(PARAMS), victim)
    assert int((cosines(found.candidates, torch.from_numpy(victim.split.inputs)) > 0.8).sum()) >= 10
    assert found.confidence is not None
    assert found.loss == pytest.approx(1 - float(found.confidence.mean()))
    assert 20 <= len(found.candidates) <= 60
    assert f"{len(found.candidates)} directions with all but 1e-05 of the squares" in found.flags[0]


@pytest.mark.parametrize("saves", [1, 3, 8])
def test_an_attack_that_is_interrupted_goes_on_as_if_it_had_not_been(
    saves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contexts, "CHECKPOINT_SECONDS", 0.0)
    victim, attack = victim_of(PHOTOS), CocktailPartyFeatures(CocktailPartyFeaturesParams(steps=60, image_steps=6))
    view, whole = view_of(victim, attack.knowledge, CPU), attacked(attack, victim)
    memory = Memory(saves)
    with pytest.raises(Interrupted):
        attack.reconstruct(view, replace(context(), checkpoints=memory))
    memory.most = 10**9
    again = attack.reconstruct(view, replace(context(seed=5), checkpoints=memory))
    assert torch.equal(again.candidates, whole.candidates)
    assert again.grad_evals == whole.grad_evals


def test_a_budget_ends_it_with_what_it_has() -> None:
    ctx = AttackContext(CPU, torch.Generator().manual_seed(0), lambda *_, **__: None, contexts.Budget(steps=20))
    attack = CocktailPartyFeatures(PARAMS)
    found = attack.reconstruct(view_of(victim_of(PHOTOS), attack.knowledge, CPU), ctx)
    assert found.grad_evals == 20
    assert "the separation did not settle" in found.flags


def test_what_it_declines_and_where_it_shows_no_image() -> None:
    def declined(**update: Any) -> str | None:
        return CocktailPartyFeatures(PARAMS).supports(PHOTOS.model_copy(update=update))

    assert declined() is None
    assert "for convolutions" in str(declined(architecture=MLPSpec(hidden=(60, 40), outputs=10)))
    assert "one sum of features a class" in str(declined(architecture=CNNSpec(hidden=(), outputs=10)))
    assert declined(training=PHOTOS.training.model_copy(update={"last_layers": 1})) == INNER_STAYED
    tiny: VictimSpec = PHOTOS.model_copy(
        update={"architecture": CNNSpec(channels=(4, 4, 4, 4), hidden=(20,), outputs=10), "name": "photos-cnn-20-tiny"}
    )
    found = attacked(CocktailPartyFeatures(PARAMS), victim_of(tiny))
    assert found.flags[-1] == SMALL_MAPS
    assert not found.candidates.any()
