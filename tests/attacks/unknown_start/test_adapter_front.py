"""Low-rank updates behind convolutions: their starts are drawn after those of the convolutions' own updates."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from attacking import CPU, attacked, context, sgd_network, victim_of
from torch import nn

from attacks.cocktail_party_features import CocktailPartyFeatures
from attacks.independent_components.maps import Held, features_span, layers_behind
from attacks.independent_components.params import CocktailPartyFeaturesParams
from attacks.knowledge import Architecture
from attacks.known_start.front import moved_convolutions
from attacks.unknown_start import NO_UPDATE
from attacks.unknown_start.adapter import DRAWS, Apart, without_adapter_start
from bench.run.disclosure import view_of
from victims.base import Victim
from victims.equations.network import Network
from victims.exposure.reading import exposure
from victims.ordinary.adaptation import LowRank
from victims.spec import CNNSpec, VictimSpec

RANK, IMAGES, SEED = 26, 20, 7
SHAPES = ((12, 27), (8, 108), (70, 512))
"""(h, d) of two convolutions of 3 x 3 pixels and a fully connected layer."""


def spec(**training: Any) -> VictimSpec:
    plain = sgd_network("photos", IMAGES, (60,), lr=0.01, batch_size=4, epochs=20)
    recipe = plain.training.model_copy(update={"lora_rank": RANK} | training)
    cnn = CNNSpec(channels=(8,), hidden=(60,), outputs=10)
    changes = {"name": "photos-cnn-20-c10-lora", "seed": SEED, "architecture": cnn, "training": recipe}
    return plain.model_copy(update=changes)


def apart(victim: Victim, before: tuple[tuple[int, int], ...]) -> tuple[str, ...]:
    """The flags on the update of the layer behind the convolutions."""
    architecture = Architecture(victim.spec.architecture, victim.input_shape)
    assert victim.start is not None
    ends = (layers_behind(architecture, state) for state in (victim.start, victim.model.state_dict()))
    return without_adapter_start(*ends, 20, context(), before)[1]


def test_this_suite_draws_after_its_convolutions() -> None:
    generator = torch.Generator().manual_seed(42)
    *_, update = (LowRank(torch.zeros(h, d, dtype=torch.float64), 5, generator) for h, d in SHAPES)
    for rows in (3, 5):
        assert torch.equal(DRAWS["this suite"](rows, 5, SHAPES, torch.Generator().manual_seed(42)), update.down[:rows])


def test_peft_draws_after_its_convolutions() -> None:
    """As peft makes its layers: A and B with their own starts, then that of A once more."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(42)
        for out, into in ((12, 3), (8, 12)):
            down = nn.Conv2d(into, 5, 3, bias=False)
            nn.Conv2d(5, out, 1, bias=False)
            nn.init.kaiming_uniform_(down.weight, a=math.sqrt(5))
        last = nn.Linear(512, 5, bias=False)
        nn.Linear(5, 70, bias=False)
        nn.init.kaiming_uniform_(last.weight, a=math.sqrt(5))
    for rows in (3, 5):
        assert torch.equal(DRAWS["peft"](rows, 5, SHAPES, torch.Generator().manual_seed(42)), last.weight[:rows])


def test_the_seed_is_found_behind_convolutions_that_have_updates_too() -> None:
    victim = victim_of(spec())
    assert victim.start is not None
    convolutions = moved_convolutions(victim.start, victim.model.state_dict())
    assert convolutions == ((8, 27),)
    assert "seed 7 drew its start as this suite does" in apart(victim, convolutions)[0]
    assert apart(victim, ()) == (f"a low-rank update of rank {RANK}: no seed below 20 drew its start",)


def test_the_network_explains_errors_as_it_was_and_no_more_directions_are_searched_than_its_rank() -> None:
    victim = victim_of(spec())
    assert victim.start is not None
    attack, end = CocktailPartyFeatures(CocktailPartyFeaturesParams()), victim.model.state_dict()
    architecture = view_of(victim, attack.knowledge, CPU).architecture
    first, last = (layers_behind(architecture, state) for state in (victim.start, end))
    apart, _ = without_adapter_start(first, last, 20, context(), ((8, 27),))
    assert apart is not None
    assert apart.rank == RANK
    params = CocktailPartyFeaturesParams(lora=True)
    for images, rank in ((None, RANK), (5, 5), (40, RANK)):
        span = Held.added_to(architecture, victim.start, end, images, params, apart).span
        assert len(span.basis) == rank
        (explaining,) = span.way
        assert isinstance(explaining, Network)
        torch.testing.assert_close(explaining.weights[0], torch.lerp(first.weights[0], last.weights[0], 0.5))


def test_convolutions_that_stayed_drew_nothing() -> None:
    state = {"front.0.weight": torch.ones(2, 3, 3, 3), "layers.0.weight": torch.ones(4, 5)}
    moved = {name: 2 * value for name, value in state.items()}
    assert moved_convolutions(state, moved) == ((2, 27),)
    assert moved_convolutions(state, moved | {"front.0.weight": state["front.0.weight"]}) == ()
    behind = {"tail.0.weight": torch.ones(2, 3, 3, 3)}
    assert moved_convolutions(behind, {"tail.0.weight": torch.zeros(2, 3, 3, 3)}) == ()


def test_images_come_back_and_without_the_seed_they_do_not() -> None:
    victim = victim_of(spec())
    images = torch.nn.functional.normalize(torch.as_tensor(victim.split.inputs).flatten(1), dim=1)

    def likeness(lora: bool) -> float:
        """The median cosine of an image and the candidate that is most like it."""
        params = CocktailPartyFeaturesParams(lora=lora, seeds=20, rounds=0, image_steps=60)
        result = attacked(CocktailPartyFeatures(params), victim)
        assert any("directions" in flag for flag in result.flags)
        candidates = torch.nn.functional.normalize(result.candidates.flatten(1), dim=1)
        return float((images @ candidates.T).amax(1).median())

    assert likeness(lora=True) > 0.65
    assert likeness(lora=False) < 0.55


@pytest.mark.parametrize(("rank", "doubt"), [(RANK, None), (None, NO_UPDATE)])
def test_an_audit_tries_it_on_low_rank_updates_alone(rank: int | None, doubt: str | None) -> None:
    victim = victim_of(spec(lora_rank=rank))
    attack = CocktailPartyFeatures(CocktailPartyFeaturesParams(lora=True, seeds=20))
    assert attack.doubt(exposure(victim, seeds=1)) == doubt
    assert (attack.supports(victim.spec) is None) == (rank is not None)
    if rank is None:
        assert attacked(attack, victim).flags == (NO_UPDATE,)


def test_a_start_that_is_not_known_has_no_update_beside_it() -> None:
    with pytest.raises(ValueError, match="with lora set start=known"):
        CocktailPartyFeaturesParams(lora=True, start="forgotten")


@pytest.mark.parametrize(("noise", "rank"), [(0.0, 5), (1e-3, 5), (0.5, 2)])
def test_directions_end_at_a_gap_or_at_noise_and_never_behind_the_rank(noise: float, rank: int) -> None:
    """Five directions of falling size, of an update of rank 5, in a layer with noise of some size in all entries."""
    draws = torch.Generator().manual_seed(1000)
    first = torch.randn(40, 60, generator=draws)
    left, right = (torch.linalg.qr(torch.randn(size, 5, generator=draws)).Q for size in (40, 60))
    added = left * torch.tensor([100.0, 30.0, 1.0, 0.5, 0.2]) @ right.T
    last = first + added + noise * torch.randn(40, 60, generator=draws) / 60**0.5
    start, end = (Network((weight, torch.eye(40)), (None, None)) for weight in (first, last))
    params, apart = CocktailPartyFeaturesParams(lora=True, missed=1e-2), Apart(end, 5, torch.ones(40, 5), None)
    assert len(features_span(start, end, None, lambda share: end, params, apart).basis) == rank
    assert len(features_span(start, end, None, lambda share: end, params).basis) < 5
