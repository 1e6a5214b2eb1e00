"""Behind convolutions: maps are separated as pictures are, images found by their features, and photographs return."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, attacked, context, sgd_network, victim_of
from torch import Tensor

from attacks.base import Knowledge, Threat, VictimView
from attacks.cocktail_party_features import INNER_STAYED, NO_END, SMALL_MAPS, CocktailPartyFeatures
from attacks.independent_components import images as searches
from attacks.independent_components.errors import SHARPNESS
from attacks.independent_components.images import ImageSearch
from attacks.independent_components.likelihood import JointLikelihood
from attacks.independent_components.maps import Held, features_span, separated, typical_features
from attacks.independent_components.params import CocktailPartyFeaturesParams
from attacks.independent_components.pictures import FeatureMaps
from attacks.independent_components.span import UpdateSpan
from attacks.known_start.equation import back_propagated
from attacks.known_start.front import FeatureExtractor, head
from attacks.known_start.no_image import STILL
from attacks.optimisation.parts import Parts
from attacks.optimisation.variation import relative_variation
from bench.run.disclosure import view_of
from victims.equations.architectures import seeded
from victims.equations.network import Network
from victims.equations.spans import share_outside
from victims.spec import CNNSpec, ConvSpec, MLPSpec, VictimSpec

SHAPE, MAPS = (3, 32, 32), (8, 16, 16)
SMALL = CNNSpec(channels=(8,), hidden=(60,), outputs=10)
PHOTOS = sgd_network("photos", 20, (60, 40), lr=0.02, batch_size=5, epochs=10).model_copy(
    update={"name": "photos-cnn-20-c10-sgd", "architecture": SMALL}
)
PARAMS = CocktailPartyFeaturesParams()
ROUNDS = CocktailPartyFeaturesParams(rounds=3)
FILTERS = CocktailPartyFeaturesParams(**CocktailPartyFeatures.variants["filters"])
FORGOTTEN = CocktailPartyFeaturesParams(**CocktailPartyFeatures.variants["forgotten"])
DEEP = CNNSpec(channels=(4, 3), halved="pooling", hidden=(60,), outputs=10)


def front(spec: CNNSpec = SMALL, scale: float = 1.0) -> FeatureExtractor:
    """Return a small front with random weights, whose features are so many times as large."""
    network = seeded(spec, SHAPE, 1)
    with torch.no_grad():
        for name in ("front.1.weight", "front.1.bias"):
            network.get_parameter(name).mul_(scale)
    state = network.state_dict()
    return FeatureExtractor.of(lambda: seeded(spec, SHAPE, 1), state, state, 0.5, 0)


def search(extractor: FeatureExtractor, params: CocktailPartyFeaturesParams = PARAMS) -> ImageSearch:
    return ImageSearch(extractor, SHAPE, params, Parts(context(), 1000), torch.zeros(1))


def photographs() -> Tensor:
    return torch.from_numpy(victim_of(PHOTOS).split.inputs).float()


def cosines(found: Tensor, truth: Tensor) -> Tensor:
    """Return the cosine (n,) of each true row with the row that is nearest to it, its sign too."""
    return (F.normalize(truth.flatten(1)) @ F.normalize(found.flatten(1)).T).amax(1)


def one_step(spec: CNNSpec, shift: float = 0.0) -> tuple[UpdateSpan, Tensor]:
    """Return the span of one gradient of the layers behind a front at photographs, mixed, and their features.

    These are less by so many times their mean.
    """
    extractor, generator = front(spec), torch.Generator().manual_seed(0)
    features = extractor(photographs())
    features = features - shift * features.mean(1, keepdim=True)
    layers = head(seeded(spec, SHAPE, 1).state_dict(), 0)
    coefficients = torch.randn(20, 10, generator=generator)
    errors, _ = back_propagated(layers, features, coefficients, SHARPNESS)
    mixing = torch.randn(20, 20, generator=generator)
    basis = torch.linalg.qr((mixing @ features).T).Q.T.contiguous()
    return UpdateSpan(basis, errors[0].T @ features, None, layers, (layers,), ""), features


def near(span: UpdateSpan, maps: tuple[int, int, int], features: Tensor, params: CocktailPartyFeaturesParams) -> Tensor:
    """Return the cosine (n,) of features with the nearest component of the span."""
    return cosines(separated(span, FeatureMaps(maps), 1.0, params, Parts(context(), 500)).images, features)


def test_mixtures_of_feature_maps_are_separated_with_their_signs() -> None:
    span, features = one_step(SMALL)
    assert front().maps(SHAPE) == MAPS
    assert int((near(span, MAPS, features, FILTERS) > 0.9).sum()) >= 17


def test_behind_two_pools_the_layers_tell_features_that_filters_do_not() -> None:
    span, features = one_step(DEEP)
    maps = front(DEEP).maps(SHAPE)
    assert maps == (3, 8, 8)
    alone, joint = (near(span, maps, features, params) for params in (FILTERS, ROUNDS))
    assert float((1 - joint).mean()) < 0.75 * float((1 - alone).mean())


def test_where_noise_fills_nearly_all_directions_those_above_it_are_searched() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = ((60, 90), (5, 60), (60, 40), (40, 90), (60, 90))
    begun, last, errors, features, noise = (torch.randn(shape, generator=generator) for shape in shapes)
    start, falling = Network((begun, last), (None, None)), 0.75 ** torch.arange(40)

    def found(added: Tensor, images: int | None = None, params: CocktailPartyFeaturesParams = PARAMS) -> UpdateSpan:
        return features_span(start, replace(start, weights=(begun + added, last)), images, lambda share: start, params)

    few = CocktailPartyFeaturesParams(start="momentum")  # few steps, in which a front hardly moves
    moving = found(errors * falling @ features)  # as features do while convolutions learn
    assert moving.flag.endswith(f"{len(moving.basis)} directions with all but 3e-05 of the squares")
    assert 6 <= len(moving.basis) <= 30
    twelve = errors[:, :12] @ features[:12]
    buried = found(twelve + 0.3 * noise * twelve.std())
    assert buried.flag.endswith("12 directions that stand above noise")
    assert float((features[:12] @ buried.basis.T).norm() / features[:12].norm()) > 0.9
    silent = twelve + 0.3 * noise * twelve.std()
    silent[56:] = 0  # neurons that never fire leave a gap, which ends no span of features
    for params in (PARAMS, few):
        assert found(silent, params=params).flag.endswith("12 directions that stand above noise")
    assert found(errors * falling @ features, params=few).flag.endswith("40 directions")
    behind_a_front_that_stayed = found(errors[:, :20] @ features[:20])  # a gap, more than half of all directions in
    assert behind_a_front_that_stayed.flag.endswith("20 directions with all but 3e-05 of the squares")
    told = found(twelve, images=7)
    assert told.flag.endswith("7 directions")
    assert torch.equal(told.basis, found(twelve, images=9).basis[:7])


def test_of_a_start_that_is_forgotten_the_layer_itself_holds_the_features() -> None:
    """From the weights alone, which are at rest: the layer behind convolutions is a sum of errors times features."""
    attack = CocktailPartyFeatures(FORGOTTEN)
    assert Knowledge.INITIAL_WEIGHTS not in attack.knowledge
    assert attack.threat is Threat.WEIGHTS
    victim = victim_of(PHOTOS)
    view, generator = view_of(victim, attack.knowledge, CPU), torch.Generator().manual_seed(0)
    features = FeatureExtractor.of(view.architecture.build, view.weights, view.weights, 1.0, 0)(photographs())
    errors = torch.randn(20, 60, generator=generator)
    weights = {**view.weights, "layers.0.weight": errors.T @ features}
    held = Held.at_rest(view.architecture, weights, None)
    assert held is not None
    assert float(share_outside(features @ held.span.basis.T, features).max()) < 1e-6
    facts = {Knowledge.ARCHITECTURE: view.architecture, Knowledge.WEIGHTS: weights}
    found = attack.reconstruct(VictimView(facts, attack.knowledge), context())
    assert found.flags[0] == "start taken for forgotten, 20 directions"
    assert int((cosines(found.candidates, photographs()) > 0.8).sum()) >= 15
    facts[Knowledge.WEIGHTS] = weights | {"layers.0.weight": torch.randn(60, features.shape[1], generator=generator)}
    assert attack.reconstruct(VictimView(facts, attack.knowledge), context()).flags == (NO_END,)


def test_features_are_as_large_as_those_of_noise() -> None:
    size, doubled = (float(typical_features(one, SHAPE).square().mean().sqrt()) for one in (front(), front(scale=2.0)))
    true = float(front()(photographs()).square().mean().sqrt())
    assert true / 3 < size < 3 * true
    assert doubled == pytest.approx(2 * size, rel=1e-4)


def test_images_are_found_by_the_directions_of_their_features() -> None:
    images = photographs()[:5]
    features = front()(images) * torch.tensor([[0.1], [1.0], [2.0], [5.0], [50.0]])
    found, reached = search(front()).images_of(features)
    assert float(reached.min()) > 0.95
    assert float(F.cosine_similarity(found.flatten(1), images.flatten(1)).min()) > 0.7


def test_of_images_that_have_the_features_smoother_ones_are_cheaper() -> None:
    features = front(DEEP)(photographs()[:5])
    rough, smooth = (
        search(front(DEEP), PARAMS.model_copy(update={"total_variation": price})).images_of(features)[0]
        for price in (0.0, 0.2)
    )
    assert bool((relative_variation(smooth) < 0.9 * relative_variation(rough)).all())


def test_all_images_together_leave_mixtures_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors tell which images they are of, and what lies outside of the span becomes less."""
    span, features = one_step(DEEP)
    outside: list[Tensor] = []
    monkeypatch.setattr(searches, "share_outside", lambda *of: outside.append(share_outside(*of)) or outside[-1])
    drawn = torch.randn(20, 20, generator=torch.Generator().manual_seed(1))
    mixed = F.normalize(F.normalize(features) + 0.3 * drawn @ F.normalize(features))
    joint, alone = (
        search(front(DEEP), PARAMS.model_copy(update={"joint_rounds": rounds})).jointly(mixed, likelihood(span))
        for rounds in (1, 0)
    )
    assert torch.equal(alone, mixed)
    assert float(outside[-1].mean()) < 0.5 * float(outside[0].mean())
    assert torch.allclose(joint, joint @ span.basis.T @ span.basis, atol=1e-3)
    assert float((1 - cosines(joint, features)).mean()) < 0.7 * float((1 - cosines(mixed, features)).mean())


def test_a_joint_descent_that_diverges_leaves_what_was_there_before(monkeypatch: pytest.MonkeyPatch) -> None:
    span, features = one_step(DEEP)
    for steps in ("NEAREST_STEPS", "JOINT_STEPS"):
        monkeypatch.setattr(searches, steps, 2)
    monkeypatch.setattr(JointLikelihood, "errors", lambda self, coordinates, sharpness: coordinates.sum() * torch.nan)
    params = PARAMS.model_copy(update={"joint_rounds": 2})
    assert torch.equal(search(front(DEEP), params).jointly(features, likelihood(span)), features)


def test_with_joint_rounds_errors_are_taken_along_the_way() -> None:
    start, asked = Network.of(seeded(MLPSpec(hidden=(30, 20), outputs=10), SHAPE, 1).state_dict()), []
    moved = replace(
        start, weights=(start.weights[0] + 0.1 * torch.rand(30, 1) @ torch.rand(1, 3072), *start.weights[1:])
    )

    def at(share: float) -> Network:
        asked.append(share)
        return start

    for rounds, shares in ((0, [0.4]), (2, [0.0, 0.4, 1.0])):
        params, asked[:] = CocktailPartyFeaturesParams(point=0.4, joint_rounds=rounds), []
        assert len(features_span(start, moved, None, at, params).way) == len(shares)
        assert asked == shares


def likelihood(span: UpdateSpan) -> JointLikelihood:
    return JointLikelihood(span, FeatureMaps(front(DEEP).maps(SHAPE)), 1.0)


def test_photographs_come_back() -> None:
    victim = victim_of(PHOTOS)
    found = attacked(CocktailPartyFeatures(PARAMS), victim)
    assert int((cosines(found.candidates, torch.from_numpy(victim.split.inputs)) > 0.8).sum()) >= 10
    assert found.confidence is not None
    assert found.loss == pytest.approx(1 - float(found.confidence.mean()))
    assert 20 <= len(found.candidates) <= 60
    assert f"{len(found.candidates)} directions with all but 3e-05 of the squares" in found.flags[0]


def test_photographs_come_back_from_a_network_without_a_relu() -> None:
    network = SMALL.model_copy(update={"activation": "gelu"})
    victim = victim_of(PHOTOS.model_copy(update={"architecture": network, "name": f"{PHOTOS.name}-gelu"}))
    attack = CocktailPartyFeatures(PARAMS.model_copy(update={"rounds": 2}))
    assert attack.supports(victim.spec) is None
    found = attacked(attack, victim)
    assert int((cosines(found.candidates, torch.from_numpy(victim.split.inputs)) > 0.8).sum()) >= 10


def test_where_features_have_both_signs_the_layers_tell_them() -> None:
    span, features = one_step(SMALL, shift=2.0)
    assert bool((features.sum(1) < 0).all())
    told = FeatureMaps(MAPS, positive=False).signed(-features, span)
    assert int((cosines(told, features) > 0.9).sum()) >= 18
    assert torch.equal(FeatureMaps(MAPS).signed(features, span), -features)


def test_the_seed_of_a_start_is_guessed_by_the_first_convolution() -> None:
    victim = victim_of(PHOTOS)
    short = {"rounds": 0, "steps": 5, "free_steps": 0, "image_steps": 5}
    told, guess, missed = (
        CocktailPartyFeatures(CocktailPartyFeaturesParams(**short, **start))
        for start in ({}, {"start": "guess", "seeds": PHOTOS.seed + 3}, {"start": "guess", "seeds": PHOTOS.seed})
    )
    known, guessed, nothing = (attacked(attack, victim) for attack in (told, guess, missed))
    assert torch.equal(guessed.candidates, known.candidates)
    assert guessed.flags[0].startswith(f"seed {PHOTOS.seed} drew the start: correlation 0.")
    assert nothing.flags[0].startswith(f"no seed below {PHOTOS.seed} drew the start")
    assert not nothing.candidates.any()
    assert told.knowledge - guess.knowledge == {Knowledge.INITIAL_WEIGHTS}
    counted = CocktailPartyFeatures(CocktailPartyFeaturesParams(images="told"))
    assert counted.knowledge - told.knowledge == {Knowledge.N}
    assert (told.threat, guess.threat) == (Threat.START, Threat.SEED)
    conv = PHOTOS.model_copy(update={"architecture": ConvSpec(hidden=(60,), outputs=10)})
    assert told.supports(conv) is None
    untrained = replace(victim, model=seeded(SMALL, SHAPE, PHOTOS.seed))
    assert attacked(guess, untrained).flags[-1] == STILL
    assert "what draws its layers is not known" in str(guess.supports(conv))
    assert "for convolutions" in str(guess.supports(PHOTOS.model_copy(update={"architecture": MLPSpec(hidden=(60,))})))


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
