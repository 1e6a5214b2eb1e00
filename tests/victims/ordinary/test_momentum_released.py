"""The optimiser's running mean of the gradients: what it is, that it is kept, and who is told of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from attacking import CPU, victim_of
from pydantic import ValidationError

from attacks.base import Knowledge
from bench.plan.capability import tellable
from bench.run.disclosure import view_of
from victims.cache import victim_folder
from victims.datasets import fingerprint
from victims.defences.spec import EarlyStop, Noise
from victims.obtain import obtain
from victims.ordinary.descent import Examples
from victims.ordinary.obtain import MOMENTUM
from victims.ordinary.training import train_ordinary
from victims.recipes import Ordinary
from victims.spec import CNNSpec, MLPSpec, VictimSpec

EPOCHS, MOMENTUM_SHARE, DECAY = 5, 0.9, 0.02


def spec(architecture: MLPSpec | CNNSpec | None = None, **training: Any) -> VictimSpec:
    network = architecture or MLPSpec(hidden=(8, 6), outputs=5, biases="every", first_layer_scale=None)
    recipe = {"epochs": EPOCHS, "batch_size": 20, "weight_decay": DECAY, "momentum_released": True} | training
    return VictimSpec(
        name=f"digits-{network.kind}-20-c5-state",
        dataset="digits",
        n=20,
        architecture=network,
        training=Ordinary.model_validate(recipe),
    )


@pytest.mark.parametrize("optimiser", ["sgd", "adam", "adamw"])
def test_it_is_the_sum_of_the_gradients_on_the_way_each_step_counting_less(optimiser: str) -> None:
    """Polyak 1964; Kingma and Ba 2015, Algorithm 1, without the division by what it would sum to."""
    described = spec(optimiser=optimiser, lr=1e-2, dtype="float64", snapshots=tuple(range(1, EPOCHS)))
    generator = torch.Generator().manual_seed(0)
    members = Examples(torch.randn(20, 1, 3, 3, generator=generator), torch.arange(20) % 5)
    trained = train_ordinary(described, members, members, CPU, lambda progress: None)

    model, expected = trained.start, dict[str, torch.Tensor]()
    for state in (model.state_dict(), *trained.snapshots.values()):
        model.load_state_dict(state)
        loss = torch.nn.functional.cross_entropy(model(members.inputs.double()), members.labels)
        for (name, value), slope in zip(
            model.named_parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
        ):
            coupled = slope if optimiser == "adamw" else slope + DECAY * value.detach()
            expected[name] = MOMENTUM_SHARE * expected.get(name, torch.zeros_like(slope)) + coupled
    weight = 1 if optimiser == "sgd" else 1 - MOMENTUM_SHARE
    assert trained.momentum.keys() == expected.keys()
    for name, value in trained.momentum.items():
        torch.testing.assert_close(value, weight * expected[name])


def test_it_comes_back_from_the_cache_and_a_damaged_file_is_told_and_made_again() -> None:
    victim, notices = victim_of(spec(optimiser="adamw")), list[str]()
    assert victim.momentum is not None
    path = victim_folder(victim.spec, fingerprint("digits", None)) / MOMENTUM
    for damage in (False, True):
        if damage:
            path.write_bytes(path.read_bytes()[:-4])
        again = obtain(victim.spec, None, CPU, lambda progress: None, notices.append)
        assert again.momentum is not None
        assert all(torch.equal(again.momentum[name], value) for name, value in victim.momentum.items())
    assert [str(path.parent) in notice and path.name in notice for notice in notices] == [True]


def test_weights_are_the_same_whether_it_is_released_or_not() -> None:
    kept, released = victim_of(spec(momentum_released=False)), victim_of(spec())
    assert kept.momentum is None
    for one, other in zip(kept.model.parameters(), released.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert kept.spec.identity() != released.spec.identity()


def test_a_training_in_float64_releases_it_in_float32_as_its_weights() -> None:
    victim = victim_of(spec(dtype="float64"))
    assert victim.momentum is not None
    assert {value.dtype for value in victim.momentum.values()} == {torch.float32}


def test_only_what_was_trained_has_it() -> None:
    victim = victim_of(spec(last_layers=1))
    assert victim.momentum is not None
    assert victim.momentum.keys() == {"layers.2.weight", "layers.2.bias"}


def test_who_is_told_of_it_has_a_copy_and_nobody_is_told_what_was_kept_back() -> None:
    victim = victim_of(spec())
    view = view_of(victim, frozenset({Knowledge.MOMENTUM}), CPU)
    assert view.momentum is not None
    view.momentum["layers.0.weight"].zero_()
    assert victim.momentum is not None
    assert torch.equal(view.momentum["layers.0.weight"], victim.momentum["layers.0.weight"])
    kept = spec(momentum_released=False)
    defended, stopped = (
        spec().model_copy(update={"defences": (one,)}) for one in (Noise(strength=0.1), EarlyStop(strength=0.1))
    )
    told = [Knowledge.MOMENTUM in tellable(one) for one in (victim.spec, kept, defended, stopped)]
    assert told == [True, False, False, True]
    released = replace(victim, card=victim.card.model_copy(update={"spec": defended}))
    assert view_of(released, frozenset({Knowledge.MOMENTUM}), CPU).momentum is None


def test_a_low_rank_update_releases_it_for_both_factors() -> None:
    victim = victim_of(spec(lora_rank=2))
    assert victim.momentum is not None
    shapes = {name: tuple(value.shape) for name, value in victim.momentum.items()}
    assert shapes["layers.0.weight.down"] == (2, 64)
    assert shapes["layers.0.weight.up"] == (8, 2)
    assert len(shapes) == 6


def test_sgd_without_momentum_releases_none() -> None:
    with pytest.raises(ValidationError, match="SGD without momentum has none to release"):
        spec(momentum=0.0)
    assert spec(optimiser="adam", momentum=0.0).training.label.endswith(", momentum released")
