"""Independent components: sources are separated, filters answer as said, signs are the network's, images come back."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attacking import (
    CPU,
    attacked,
    drawn_network,
    images_and_errors,
    sgd_network,
    victim_of,
)
from torch import Tensor

from attacks import context as contexts
from attacks.base import AttackContext, Knowledge, Threat
from attacks.cocktail_party import CocktailParty
from attacks.independent_components.errors import RIDGE, SHARPNESS, chance, explained
from attacks.independent_components.orientation import oriented
from attacks.independent_components.params import CocktailPartyParams
from attacks.independent_components.span import UpdateSpan
from attacks.known_start.equation import back_propagated
from attacks.known_start.no_image import FIRST_STAYED, STILL
from bench.run.disclosure import view_of
from victims.equations.network import Network
from victims.spec import DecayedDescent, MLPSpec, VictimSpec

SOURCES, SAMPLES = 20, 1000
PHOTOS = sgd_network("photos", 20, (60, 40), lr=0.02, batch_size=4, epochs=10)
FORGOTTEN = PHOTOS.model_copy(
    update={
        "name": "photos-mlp-20-c10-wd",
        "architecture": MLPSpec(hidden=(60, 40), outputs=10),
        "training": DecayedDescent(steps=300),
    }
)


def one_step(biases: bool, size: float = 1.0) -> tuple[Network, Tensor, Tensor, Tensor]:
    """Return a network, images (n, d) of a size, and the gradients by W1 and b1 of a loss of them."""
    generator = torch.Generator().manual_seed(1)
    network = drawn_network(generator, 27, 40, 30, 3, biases=biases)
    images, errors = images_and_errors(network, 6, generator, SHARPNESS, size)
    return network, images, errors.T @ images, errors.sum(0)


@pytest.mark.parametrize("told", ["gates", "biases"])
@pytest.mark.parametrize("size", [0.25, 1.0])
def test_signs_are_told_by_the_gates_and_by_the_biases(told: str, size: float) -> None:
    network, images, added, bias = one_step(biases=True, size=size)
    signs = torch.tensor([1.0, -1, 1, -1, -1, 1], dtype=torch.float64)[:, None]
    if told == "biases":  # with a network that knows nothing of them
        network = Network(tuple(torch.zeros_like(one) for one in network.weights), network.biases)
    found = oriented(signs * images, added, bias if told == "biases" else None, network)

    assert torch.equal(found, images)


def test_errors_of_the_true_images_explain_what_the_weights_hold() -> None:
    network, images, added, _ = one_step(biases=False)
    held = (added @ torch.linalg.pinv(images)).T
    assert float(explained(images, held, (network,)).min()) > 0.99
    assert float(explained(-images, held, (network,)).max()) < 0.6
    other = torch.randn(6, 40, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    basis = torch.stack(
        [back_propagated(network, images, one.expand(6, -1), SHARPNESS)[0][0] for one in torch.eye(3).double()], dim=2
    )
    best = basis @ torch.linalg.lstsq(basis, other[:, :, None]).solution
    expected = best[:, :, 0].square().sum(1) / other.square().sum(1)
    assert torch.allclose(explained(images, other, (network,)), expected, atol=10 * RIDGE)


@pytest.mark.parametrize(("rank", "coefficients"), [(40, 8), (200, 8), (200, 40)])
def test_chance_explains_as_much_as_random_spans_share(rank: int, coefficients: int) -> None:
    """The largest squared cosine between two random spans of 400 neurons; at its limit within a few hundredths."""
    generator = torch.Generator().manual_seed(0)
    one, other = (
        torch.linalg.qr(torch.randn(400, size, generator=generator, dtype=torch.float64)).Q
        for size in (rank, coefficients)
    )
    assert float(torch.linalg.matrix_norm(one.T @ other, ord=2)) ** 2 == pytest.approx(
        chance(rank, coefficients, 400), abs=0.05
    )
    assert chance(rank, coefficients, rank + coefficients) == 1


@pytest.mark.parametrize(("spec", "params"), [(PHOTOS, {}), (FORGOTTEN, {"start": "forgotten", "pixel_size": 0.25})])
def test_photographs_come_back_with_their_signs(spec: VictimSpec, params: dict[str, Any]) -> None:
    victim = victim_of(spec)
    found = attacked(CocktailParty(CocktailPartyParams(**params)), victim)

    images = torch.from_numpy(victim.split.inputs)
    products = F.normalize(images.flatten(1)) @ F.normalize(found.candidates.flatten(1)).T
    assert len(found.candidates) == 20
    assert int((products.amax(1) > 0.9).sum()) >= 17
    sizes = found.candidates.square().mean((1, 2, 3)).sqrt()
    assert torch.allclose(sizes, torch.full((20,), params.get("pixel_size", 1.0)))
    assert found.confidence is not None
    assert found.loss == pytest.approx(1 - float(found.confidence.mean()))


def test_where_gates_alone_tell_the_sign_the_negatives_follow_behind_all() -> None:
    victim, forgotten = victim_of(FORGOTTEN), CocktailParty.variants["forgotten"]
    told, both = (
        attacked(CocktailParty(CocktailPartyParams(**forgotten | signs)), victim) for signs in ({"signs": "told"}, {})
    )
    assert torch.equal(both.candidates, torch.cat([told.candidates, -told.candidates]))
    assert told.confidence is not None and both.confidence is not None
    assert torch.equal(both.confidence[:20], told.confidence)
    assert float(both.confidence[20:].max()) < float(told.confidence.min())
    assert torch.equal(both.confidence[20:].argsort(), told.confidence.argsort())
    assert both.loss == told.loss


def test_a_seed_is_guessed_and_n_is_told() -> None:
    victim = victim_of(PHOTOS)
    known, guessed, told = (
        attacked(CocktailParty(CocktailPartyParams(**params)), victim)
        for params in ({}, {"start": "guess", "seeds": 20}, {"images": "told"})
    )
    assert torch.allclose(guessed.candidates, known.candidates, atol=1e-4)
    assert "drew the start" in guessed.flags[0]
    assert torch.equal(told.candidates, known.candidates)


def test_where_nothing_tells_the_span_there_is_no_image() -> None:
    victim = deepcopy(victim_of(PHOTOS))
    assert victim.start is not None
    victim.model.load_state_dict(victim.start)
    for start, reason in (("forgotten", "is its start forgotten?"), ("known", STILL)):
        found = attacked(CocktailParty(CocktailPartyParams.model_validate({"start": start})), victim)
        assert reason in found.flags[-1]
        assert not found.candidates.any()
    first = {name: value for name, value in victim.start.items() if name.startswith("layers.0.")}
    victim.model.load_state_dict(victim_of(PHOTOS).model.state_dict() | first)
    assert attacked(CocktailParty(CocktailPartyParams()), victim).flags[-1] == FIRST_STAYED


def test_what_is_known_is_what_the_parameters_ask_for() -> None:
    def attack(**params: Any) -> CocktailParty:
        return CocktailParty(CocktailPartyParams(**params))

    assert attack(start="guess").knowledge == attack(start="forgotten").knowledge
    assert attack().knowledge - attack(start="guess").knowledge == {Knowledge.INITIAL_WEIGHTS}
    assert attack(images="told").knowledge - attack().knowledge == {Knowledge.N}
    assert [attack(start=one).threat for one in ("known", "guess", "forgotten")] == [
        Threat.START,
        Threat.SEED,
        Threat.WEIGHTS,
    ]


def test_a_budget_ends_it_with_what_it_has() -> None:
    victim = victim_of(PHOTOS)
    attack = CocktailParty(CocktailPartyParams())
    ctx = AttackContext(CPU, torch.Generator().manual_seed(0), lambda *_, **__: None, contexts.Budget(steps=20))
    found = attack.reconstruct(view_of(victim, attack.knowledge, CPU), ctx)
    assert found.grad_evals == 20
    assert "not settled after 20 iterations" in found.flags


def test_the_span_of_a_known_start_is_that_of_the_images() -> None:
    victim = victim_of(PHOTOS)
    assert victim.start is not None
    shape = (3, 32, 32)
    start, end = (Network.of(one, shape) for one in (victim.start, victim.model.state_dict()))
    span = UpdateSpan.added_to(start, end, None)
    images = torch.from_numpy(victim.split.inputs).flatten(1)
    inside = images @ span.basis.T @ span.basis
    assert float((inside - images).norm() / images.norm()) < 1e-3
    assert span.network is start
