"""The optimiser's state in the place of a start: a step along it, and the images of the last batches out of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from attacking import attacked, cosines, sgd_network, victim_of
from torch import Tensor

from attacks.base import Attack, Knowledge, Threat
from attacks.cocktail_party import CocktailParty
from attacks.cocktail_party_features import CocktailPartyFeatures
from attacks.independent_components.span import UpdateSpan
from attacks.knowledge import threat_of
from attacks.unknown_start import NO_MOMENTUM
from attacks.unknown_start.momentum import NO_MEAN, STEP, before_a_step
from victims.equations.network import DOWN
from victims.networks import CNNSpec
from victims.spec import VictimSpec

ADAMW = {"optimiser": "adamw", "lr": 3e-3, "weight_decay": 1e-2, "batch_size": 10, "epochs": 15}


def network(dataset: str, n: int, hidden: tuple[int, int]) -> VictimSpec:
    return sgd_network(dataset, n, hidden, lr=0.02, batch_size=10, epochs=10)


def released(victim: VictimSpec, **changes: Any) -> VictimSpec:
    training = victim.training.model_copy(update={"momentum_released": True, **changes})
    return victim.model_copy(update={"name": f"{victim.name}-state", "training": training})


PHOTOS = released(network("photos", 20, (60, 40)), **ADAMW)
LORA = released(network("photos", 20, (60, 40)), **ADAMW | {"lora_rank": 24})
CARD: Any = SimpleNamespace(start=SimpleNamespace(adapter=None, wrong=True, cosine=0.0), start_remains="it does")
"""What speaks against a start that is known, or forgotten, and against an update."""


def test_it_is_a_step_along_the_mean_of_the_gradients() -> None:
    """After Kariyappa et al. 2023, whose attacker has one gradient: what the step adds is that gradient."""
    generator = torch.Generator().manual_seed(0)
    weights = {f"layers.{k}.weight": torch.randn(5, 7, generator=generator, dtype=torch.float64) for k in range(2)}
    weights["front.0.weight"] = torch.ones(3, dtype=torch.float64)
    mean = {f"layers.{k}.weight": torch.randn(5, 7, generator=generator, dtype=torch.float64) for k in range(2)}
    before = before_a_step(weights, mean)
    assert before is not None
    steps = [before[name] - weights[name] for name in mean]
    assert float(steps[0].norm() / weights["layers.0.weight"].norm()) == pytest.approx(STEP)
    factor = float(steps[0].norm() / mean["layers.0.weight"].norm())
    for step, name in zip(steps, mean, strict=True):
        torch.testing.assert_close(step, factor * mean[name])
    assert torch.equal(before["front.0.weight"], weights["front.0.weight"])


@pytest.mark.parametrize("mean", [{}, {"layers.0.weight": torch.zeros(2, 3)}, {"layers.1.weight": torch.ones(2, 2)}])
def test_without_a_mean_of_the_first_layer_there_is_no_step(mean: dict[str, Tensor]) -> None:
    assert before_a_step({"layers.0.weight": torch.ones(2, 3), "layers.1.weight": torch.ones(2, 2)}, mean) is None


def test_photographs_that_adam_scaled_entry_by_entry_come_out_of_its_first_moment() -> None:
    victim = victim_of(PHOTOS)
    found = attacked(CocktailParty(CocktailParty.Params(**CocktailParty.variants["momentum"])), victim)

    assert len(found.candidates) == 20
    assert int((cosines(victim, found.candidates) > 0.97).sum()) >= 17
    with_start = attacked(CocktailParty(CocktailParty.Params()), victim)
    assert int((cosines(victim, with_start.candidates) > 0.97).sum()) <= 3


def test_of_many_images_it_has_those_of_the_last_batches() -> None:
    """The last ten batches of ten, of which each epoch has twelve, count .9^s; the start is far behind them."""
    victim = victim_of(released(network("photos", 120, (160, 40)), **ADAMW | {"epochs": 6}))
    assert victim.momentum is not None
    order = torch.Generator().manual_seed(victim.spec.seed)
    for _ in range(6):
        last = torch.randperm(120, generator=order)
    images = torch.from_numpy(victim.split.inputs).flatten(1).double()
    errors = victim.momentum["layers.0.weight"].double() @ torch.linalg.pinv(images)
    sizes = (errors.norm(dim=0) * images.norm(dim=1))[last].view(12, 10).mean(1)
    assert float(sizes[-4:].min()) > float(sizes[:4].max())


@pytest.mark.parametrize("kind", [CocktailParty, CocktailPartyFeatures])
def test_it_needs_the_state_and_no_start(kind: type[Attack[Any]]) -> None:
    attack = kind(kind.Params(start="momentum"))
    assert Knowledge.MOMENTUM in attack.knowledge
    assert Knowledge.INITIAL_WEIGHTS not in attack.knowledge
    assert attack.threat is Threat.MOMENTUM is threat_of(attack.knowledge)
    assert threat_of(attack.knowledge | {Knowledge.INITIAL_WEIGHTS}) is Threat.START
    assert attack.doubt(CARD) is None
    assert attack.supports(network("photos", 20, (60, 40))) == NO_MOMENTUM


def test_behind_a_convolution_features_come_out_of_it() -> None:
    architecture = CNNSpec(channels=(12,), hidden=(100,), outputs=10)
    described = released(network("photos", 10, (60, 40)), **ADAMW)
    described = described.model_copy(update={"name": "photos-cnn-10-c10-state", "architecture": architecture})
    victim = victim_of(described)
    params = CocktailPartyFeatures.Params(start="momentum")
    found = attacked(CocktailPartyFeatures(params), victim)
    assert int((cosines(victim, found.candidates) > 0.8).sum()) >= 8


def test_errors_are_taken_where_the_training_was_unless_told_otherwise() -> None:
    for start in ("momentum", "snapshots", "checkpoints"):
        features = CocktailPartyFeatures.Params(start=start, joint_rounds=1)
        assert (features.point, features.missed, features.errors_at) == (1.0, None, (1.0,))
        assert CocktailParty.Params(start=start).points == (1.0, 1.0)
        told = CocktailPartyFeatures.Params(start=start, point=0.5, missed=1e-4)
        assert (told.point, told.missed) == (0.5, 1e-4)
    features = CocktailPartyFeatures.Params(joint_rounds=1)
    assert (features.point, features.missed, features.errors_at) == (0.5, 3e-5, (0.0, 0.5, 1.0))
    assert CocktailParty.Params(start="guess").points == (0.0, 0.5, 1.0)


@pytest.mark.parametrize("variant", ["momentum", "momentum-lora"])
def test_a_mean_of_zero_shows_nothing_and_says_so(variant: str) -> None:
    victim = victim_of(LORA if variant.endswith("lora") else PHOTOS)
    assert victim.momentum is not None
    for value in victim.momentum.values():
        value.zero_()
    attack = CocktailParty(CocktailParty.Params(**CocktailParty.variants[variant]))
    found = attacked(attack, victim)
    assert not found.candidates.any()
    assert found.flags == (NO_MEAN,)
    with pytest.raises(ValueError, match="was not released with its weights"):
        attacked(attack, replace(victim, momentum=None))


def test_convolutions_that_are_layers_are_passed_over() -> None:
    weights = {"layers.0.weight": torch.ones(2, 1, 3, 3), "layers.1.weight": torch.full((2, 2), 3.0)}
    before = before_a_step(weights, {"layers.1.weight": torch.ones(2, 2)})
    assert before is not None
    assert torch.equal(before["layers.0.weight"], weights["layers.0.weight"])
    assert float(before["layers.1.weight"][0, 0]) == pytest.approx(3 * (1 + STEP))


@pytest.mark.parametrize(("images", "shown"), [(None, ": n is not shown"), (4, "")])
def test_of_an_update_of_fewer_rows_than_images_all_or_as_many_as_told_are_searched(
    images: int | None, shown: str
) -> None:
    mean = torch.randn(6, 48, generator=torch.Generator().manual_seed(0))
    span = UpdateSpan.of_update(mean, images)
    assert span.basis.shape == (images or 6, 48)
    assert span.flag.endswith(f"of a low-rank update{shown}")


def test_of_a_low_rank_update_images_come_out_though_neither_start_is_known() -> None:
    """Hu et al. 2022, eq. 3: what moves A is sum B' D x', of images as they are."""
    victim = victim_of(LORA)
    assert victim.momentum is not None
    images = torch.from_numpy(victim.split.inputs).flatten(1).double()
    rows = victim.momentum[DOWN].double()
    assert float((rows - rows @ torch.linalg.pinv(images) @ images).norm() / rows.norm()) < 1e-5
    found = attacked(CocktailParty(CocktailParty.Params(**CocktailParty.variants["momentum-lora"])), victim)
    assert len(found.candidates) == 40
    assert torch.equal(found.candidates[20:], -found.candidates[:20])
    assert int((cosines(victim, found.candidates) > 0.9).sum()) >= 17
    assert found.flags[0] == "20 directions of the gradients of a low-rank update"


def test_it_says_which_variant_is_for_low_rank_updates() -> None:
    plain, update = (CocktailParty.Params(**CocktailParty.variants[name]) for name in ("momentum", "momentum-lora"))
    assert "momentum-lora takes it" in (CocktailParty(plain).supports(LORA) or "")
    assert "momentum-lora takes it" in (
        CocktailPartyFeatures(CocktailPartyFeatures.Params(start="momentum")).supports(
            LORA.model_copy(update={"architecture": CNNSpec(channels=(12,), hidden=(100,), outputs=10)})
        )
        or ""
    )
    assert "no low-rank update" in (CocktailParty(update).supports(PHOTOS) or "")
    assert CocktailParty(update).supports(LORA) is None
    assert "weight decay in the gradient" in (CocktailParty(update).supports(released(LORA, optimiser="adam")) or "")
    with pytest.raises(ValueError, match="set signs=both"):
        CocktailParty.Params(start="momentum", lora=True)
