"""Low-rank updates: who draws their start is found, what lies along it is taken out, and the images come back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from attacking import attacked, context, sgd_network, victim_of
from torch import Tensor, nn

from attacks.cocktail_party import CocktailParty
from attacks.context import Budget
from attacks.independent_components.params import CocktailPartyParams
from attacks.unknown_start import NO_UPDATE
from attacks.unknown_start.adapter import DRAWS, guess_adapter, without_adapter_start
from victims.base import Victim
from victims.equations.network import Network
from victims.exposure.reading import exposure
from victims.ordinary.adaptation import LowRank
from victims.ordinary.update import adapter_rank
from victims.spec import VictimSpec

RANK, IMAGES = 30, 20


def spec(seed: int = 7, **training: Any) -> VictimSpec:
    plain = sgd_network("photos", IMAGES, (60, 40), lr=0.01, batch_size=4, epochs=20)
    recipe = plain.training.model_copy(update={"lora_rank": RANK, "dtype": "float64"} | training)
    return plain.model_copy(update={"name": "photos-mlp-20-c10-lora", "seed": seed, "training": recipe})


def ends(victim: Victim) -> tuple[Network, Network]:
    states = victim.start, victim.model.state_dict()
    begun, ended = (Network.of({name: value.double() for name, value in one.items()}) for one in states)
    return begun, ended


def in_span(images: Tensor, rows: Tensor) -> Tensor:
    """Return the share of the squares of each image (n, d) in the span of the first `IMAGES` directions of rows."""
    directions = torch.linalg.svd(rows.double(), full_matrices=False).Vh[:IMAGES]
    return (images @ directions.T).square().sum(1) / images.square().sum(1)


def test_peft_draws_so() -> None:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(42)
        down = nn.Linear(48, 5, bias=False)
        nn.Linear(5, 70, bias=False)
        nn.init.kaiming_uniform_(down.weight, a=math.sqrt(5))
    for rows in (3, 5):
        drawn = DRAWS["peft"](rows, 5, ((70, 48),), torch.Generator().manual_seed(42))
        assert torch.equal(drawn, down.weight[:rows])


def test_this_suite_draws_so() -> None:
    down = LowRank(torch.zeros(70, 48, dtype=torch.float64), 5, torch.Generator().manual_seed(42)).down
    for rows in (3, 5):
        assert torch.equal(DRAWS["this suite"](rows, 5, ((70, 48),), torch.Generator().manual_seed(42)), down[:rows])


@pytest.mark.parametrize("name", list(DRAWS))
def test_the_seed_is_found_and_no_other_is(name: str) -> None:
    drawn = DRAWS[name](6, 6, ((50, 300),), torch.Generator().manual_seed(11)).double()
    mixed = torch.randn(4, 6, generator=torch.Generator().manual_seed(1000), dtype=torch.float64) @ drawn
    noise = torch.randn(4, 300, generator=torch.Generator().manual_seed(1001), dtype=torch.float64)
    span = torch.linalg.qr((mixed / mixed.norm() + 0.5 * noise / noise.norm()).T).Q.T.float()

    found = guess_adapter(span, ((50, 300),), 6, range(20))
    assert found is not None
    assert (found.seed, found.drawn_by) == (11, name)
    assert found.share > found.threshold
    assert guess_adapter(span, ((50, 300),), 6, range(11)) is None
    assert guess_adapter(span, ((50, 300),), 6, range(12, 400)) is None


def test_wrong_seeds_pass_the_threshold_as_rarely_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attacks.unknown_start.adapter.FALSE_ALARM", 0.2)  # a tenth for each of two ways to draw
    span = torch.linalg.qr(torch.randn(200, 10, generator=torch.Generator().manual_seed(10_003))).Q.T
    passed = sum(guess_adapter(span, ((8, 200),), 8, [seed]) is not None for seed in range(1000))
    assert 140 < passed < 240


def test_a_budget_ends_the_search() -> None:
    done = list[int]()
    span = torch.linalg.qr(torch.randn(200, 10, generator=torch.Generator().manual_seed(10_003))).Q.T
    assert guess_adapter(span, ((8, 200),), 8, range(100), done.append, lambda: len(done) >= 3) is None
    assert done == [1, 2, 3]


@pytest.mark.parametrize(("rank", "changes"), [(RANK, {}), (None, {"lora_rank": None})])
def test_an_update_beside_all_layers_is_told_from_a_training_of_all(rank: int | None, changes: dict[str, Any]) -> None:
    victim = victim_of(spec(**changes))
    assert adapter_rank(*ends(victim)) == rank
    shown = exposure(victim, seeds=1).start
    assert shown is not None
    assert shown.adapter == rank
    attack = CocktailParty(CocktailPartyParams(lora=True))
    assert attack.doubt(exposure(victim, seeds=1)) == (None if rank else NO_UPDATE)
    assert (attack.supports(victim.spec) is None) == bool(rank)


def test_less_its_start_an_update_spans_the_images() -> None:
    """Exactly, but for what they have along the start: a part (r / d) of their squares."""
    victim = victim_of(spec())
    start, end = ends(victim)
    apart, flags = without_adapter_start(start, end, 20, context())
    assert apart is not None
    assert "seed 7 drew its start as this suite does" in flags[0]
    images = torch.as_tensor(victim.split.inputs).flatten(1).double()
    drawn = DRAWS["this suite"](RANK, RANK, ((60, 3072),), torch.Generator().manual_seed(7)).double()
    rows = torch.linalg.qr(drawn.T).Q
    outside = images - images @ rows @ rows.T

    learnt = in_span(outside, apart.network.weights[0] - start.weights[0])
    assert float(learnt.median()) > 0.999
    assert float(in_span(outside, end.weights[0] - start.weights[0]).median()) < 0.95
    assert all(torch.equal(*pair) for pair in zip(apart.network.weights[1:], end.weights[1:], strict=True))


def test_the_images_come_back_and_without_the_seed_none() -> None:
    victim = victim_of(spec(dtype="float32", epochs=60))
    images = torch.nn.functional.normalize(torch.as_tensor(victim.split.inputs).flatten(1), dim=1)

    def found(params: CocktailPartyParams, likeness: float) -> int:
        candidates = torch.nn.functional.normalize(attacked(CocktailParty(params), victim).candidates.flatten(1), dim=1)
        return int(((images @ candidates.T).amax(1) > likeness).sum())

    assert found(CocktailPartyParams(lora=True, seeds=20), 0.95) >= IMAGES - 2
    assert found(CocktailPartyParams(), 0.8) <= IMAGES // 4


def test_without_lora_no_update_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of every other variant are those of before there were updates."""
    victim = victim_of(spec(lora_rank=None, dtype="float32"))
    before = attacked(CocktailParty(CocktailPartyParams()), victim)

    def refused(*_: object, **__: object) -> None:
        raise AssertionError

    for name in ("unknown_start.adapter.smoothest", "unknown_start.adapter.smooth_directions"):
        monkeypatch.setattr(f"attacks.{name}", refused)
    for name in ("span.let_through", "orientation.of_one_label", "span.Adapted"):
        monkeypatch.setattr(f"attacks.independent_components.{name}", refused)
    after = attacked(CocktailParty(CocktailPartyParams()), victim)
    assert torch.equal(before.candidates, after.candidates)
    assert not any("update" in flag for flag in after.flags)


def test_a_seed_that_is_not_found_is_one_line() -> None:
    victim = victim_of(spec(dtype="float32"))
    missed = attacked(CocktailParty(CocktailPartyParams(lora=True, seeds=7)), victim)
    assert missed.flags == ("a low-rank update of rank 30: no seed below 7 drew its start",)
    plain = victim_of(spec(lora_rank=None, dtype="float32"))
    assert attacked(CocktailParty(CocktailPartyParams(lora=True)), plain).flags == (NO_UPDATE,)
    assert not missed.candidates.any()


def test_seeds_that_the_budget_left_untried_are_not_said_to_be_wrong() -> None:
    ctx = replace(context(), budget=Budget(steps=0))
    apart, flags = without_adapter_start(*ends(victim_of(spec())), 20, ctx)
    assert apart is None
    assert flags == ("a low-rank update of rank 30: no seed below 1 drew its start",)


def test_a_start_that_is_not_known_has_no_update_beside_it_and_an_update_no_rounds() -> None:
    with pytest.raises(ValueError, match="with lora set start=known"):
        CocktailPartyParams(lora=True, start="guess")
    with pytest.raises(ValueError, match="with lora set rounds=0"):
        CocktailPartyParams(lora=True, rounds=1)


def test_an_update_may_leave_layers_out_and_a_head_be_trained_but_no_hidden_bias() -> None:
    start, end = ends(victim_of(spec()))
    (first, second, last), (*hidden, head) = end.weights, end.biases
    assert head is not None
    part = replace(end, weights=(first, start.weights[1], last + 1), biases=(*hidden, head + 1))
    assert adapter_rank(start, part) == IMAGES  # what the first layer alone shows
    moved = replace(end, biases=tuple(None if one is None else one + 1 for one in end.biases))
    assert without_adapter_start(start, moved, 20, context()) == (None, (NO_UPDATE,))
    trained = replace(
        end,
        weights=(
            first,
            second + torch.randn(second.shape, generator=torch.Generator().manual_seed(1)).to(second),
            last,
        ),
    )
    assert adapter_rank(start, trained) is None
