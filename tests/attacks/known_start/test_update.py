"""What kkt-delta makes of snapshots, of low-rank updates, and of layers that did not move."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attacking import attacked, context, victim_of

from attacks.base import Architecture, Attack, Knowledge, VictimView
from attacks.cocktail_party import CocktailParty
from attacks.independent_components.params import CocktailPartyParams
from attacks.kkt_delta import KKTDelta
from attacks.known_start import search
from attacks.known_start.equation import Equation, checked_difference
from attacks.known_start.params import KKTDeltaParams
from victims.equations.architectures import seeded
from victims.equations.network import Network
from victims.ordinary.update import low_rank
from victims.recipes import Ordinary
from victims.spec import MLPSpec, VictimSpec

QUICK = {"steps": 3, "restarts": 1}


def spec(**training: Any) -> VictimSpec:
    recipe = {"epochs": 10, "batch_size": 5, "weight_decay": 0, "schedule": "constant", "lr": 0.02} | training
    return VictimSpec(
        name="digits-mlp-20-c10-update",
        dataset="digits",
        n=20,
        architecture=MLPSpec(hidden=(60, 50), outputs=10, biases="every", first_layer_scale=None),
        training=Ordinary.model_validate(recipe),
    )


def test_snapshots_are_where_the_gradients_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    victim, seen = victim_of(spec(snapshots=(2, 5))), list[Equation]()
    plain = search.Search.__init__

    def watched(self: Any, equation: Equation, *rest: Any) -> None:
        seen.append(equation)
        plain(self, equation, *rest)

    monkeypatch.setattr(search.Search, "__init__", watched)
    attack = KKTDelta(KKTDeltaParams(**QUICK, path="snapshots"))
    assert attack.knowledge == KKTDelta.needs | {Knowledge.EARLIER_WEIGHTS}
    attacked(attack, victim)
    (equation,) = seen
    for network, earlier in zip(equation.networks, victim.earlier, strict=True):
        assert torch.allclose(network.weights[0], earlier["layers.0.weight"] @ equation.basis, atol=1e-6)
        assert torch.equal(network.weights[1], earlier["layers.1.weight"])


def test_without_snapshots_it_declines() -> None:
    attack = KKTDelta(KKTDeltaParams(path="snapshots"))
    assert "no weights on the way" in str(attack.supports(spec()))
    assert attack.supports(spec(snapshots=(2,))) is None


def test_a_training_that_stops_before_its_first_snapshot_is_one_line_and_no_search() -> None:
    victim = victim_of(spec(snapshots=(5,), stop_loss=100.0))
    assert victim.earlier == ()
    found = attacked(KKTDelta(KKTDeltaParams(**QUICK, path="snapshots")), victim)
    assert "ended before its first snapshot" in found.flags[0]
    assert found.candidates.abs().sum() == 0


def networks(victim: Any) -> tuple[Network, Network]:
    return Network.of(victim.start), Network.of(victim.model.state_dict())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_low_rank_update_is_told_from_a_training_of_all_weights(seed: int) -> None:
    for training, rank in (({"lora_rank": 4}, 4), ({}, None)):
        ends = networks(victim_of(spec(**training).model_copy(update={"seed": seed})))
        assert low_rank(*ends, checked_difference(*ends)) == rank


@pytest.mark.parametrize("attack", [KKTDelta(KKTDeltaParams(**QUICK)), CocktailParty(CocktailPartyParams(steps=2))])
def test_a_low_rank_update_is_one_line_of_the_row(attack: Attack[Any]) -> None:
    found = attacked(attack, victim_of(spec(lora_rank=4)))
    assert any("every layer moved by rank 4, as by LoRA" in flag for flag in found.flags)
    assert not any("LoRA" in flag for flag in attacked(attack, victim_of(spec())).flags)


def test_a_training_on_one_image_is_not_taken_for_an_update_without_images() -> None:
    shape, spec = (1, 5, 5), MLPSpec(hidden=(200,), outputs=3, biases="every", first_layer_scale=None)
    network, image = seeded(spec, shape, 3), torch.randn(1, *shape, generator=torch.Generator().manual_seed(0))
    start = {name: value.clone() for name, value in network.state_dict().items()}
    optimiser = torch.optim.SGD(network.parameters(), 0.05, momentum=0.9)
    for _ in range(50):
        optimiser.zero_grad()
        F.cross_entropy(network(image), torch.tensor([0])).backward()
        optimiser.step()
    facts = {
        Knowledge.ARCHITECTURE: Architecture(spec, shape),
        Knowledge.WEIGHTS: network.state_dict(),
        Knowledge.INITIAL_WEIGHTS: start,
    }
    found = KKTDelta(KKTDeltaParams(**QUICK)).reconstruct(VictimView(facts, KKTDelta.needs), context())
    assert "or by training on one image" in found.flags[-1]
    assert "no image in them" not in found.flags[-1]


@pytest.mark.parametrize(("last", "line"), [(2, "first layer was not trained"), (1, "only the last layer moved")])
def test_layers_that_did_not_move_are_one_line_and_no_search(last: int, line: str) -> None:
    attack, victim = KKTDelta(KKTDeltaParams(**QUICK)), victim_of(spec(last_layers=last))
    assert "use kkt-delta-features" in str(attack.supports(victim.spec))
    found = attacked(attack, victim)
    assert line in found.flags[0]
    assert found.candidates.abs().sum() == 0
