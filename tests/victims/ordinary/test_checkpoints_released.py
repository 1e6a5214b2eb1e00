"""What a training goes on from after some epochs: that it is kept as it was, and who is told of it."""

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
from victims.defences.spec import Noise
from victims.equations.checkpoint import summed_gradients
from victims.obtain import obtain
from victims.ordinary.descent import Examples
from victims.ordinary.obtain import CHECKPOINTS
from victims.ordinary.training import train_ordinary
from victims.recipes import Ordinary
from victims.spec import CNNSpec, MLPSpec, VictimSpec

DECAY = 0.02


def spec(architecture: MLPSpec | CNNSpec | None = None, **training: Any) -> VictimSpec:
    network = architecture or MLPSpec(hidden=(8, 6), outputs=5, biases="every", first_layer_scale=None)
    recipe = {"epochs": 5, "batch_size": 20, "weight_decay": DECAY, "checkpoints": (2, 5)} | training
    return VictimSpec(
        name=f"digits-{network.kind}-20-c5-checkpoints",
        dataset="digits",
        n=20,
        architecture=network,
        training=Ordinary.model_validate(recipe),
    )


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_what_it_tells_is_the_sum_of_the_gradients_between_two_epochs(momentum: float) -> None:
    """Of SGD at a constant rate, one batch an epoch, by autograd at the weights before each."""
    whole = spec(schedule="constant", momentum=momentum, lr=0.1, checkpoints=tuple(range(1, 6)))
    generator = torch.Generator().manual_seed(0)
    members = Examples(torch.randn(20, 1, 3, 3, generator=generator), torch.arange(20) % 5)
    trained = train_ordinary(whole, members, members, CPU, lambda progress: None)
    states = trained.checkpoints
    assert [state.steps for state in states.values()] == [1, 2, 3, 4, 5]

    model, expected = trained.start, dict[str, torch.Tensor]()
    for epoch in (2, 3, 4):
        model.load_state_dict(states[epoch].weights)
        loss = torch.nn.functional.cross_entropy(model(members.inputs), members.labels)
        for (name, value), slope in zip(
            model.named_parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
        ):
            expected[name] = expected.get(name, torch.zeros_like(slope)) + slope + DECAY * value.detach()
    found = summed_gradients(states[2], states[5])
    assert found.keys() == expected.keys()
    for name, value in found.items():
        torch.testing.assert_close(value.float(), expected[name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("optimiser", ["sgd", "adam", "adamw"])
def test_it_is_the_weights_and_the_state_of_the_optimiser_after_an_epoch(optimiser: str) -> None:
    alone = victim_of(spec(optimiser=optimiser, lr=1e-2, checkpoints=(), snapshots=(2,), momentum_released=True))
    released = victim_of(spec(optimiser=optimiser, lr=1e-2))
    halfway, end = released.checkpoints
    assert alone.momentum is not None
    for name, value in alone.model.state_dict().items():
        torch.testing.assert_close(end.weights[name], value)
        torch.testing.assert_close(halfway.weights[name], alone.earlier[0][name])
        torch.testing.assert_close(end.first[name], alone.momentum[name])
    adam = optimiser != "sgd"
    assert end.second.keys() == (end.first.keys() if adam else set())
    assert (end.steps, end.betas, end.epsilon) == (5, (0.9, 0.999 if adam else 0.0), 1e-8 if adam else 0.0)
    assert end.decay == (DECAY if optimiser == "adamw" else 0.0)
    assert halfway.lr > end.lr > 0  # the rate falls as a cosine
    if adam:
        assert all(bool((value >= 0).all()) and bool(value.any()) for value in end.second.values())


def test_it_has_the_weights_themselves_where_their_average_is_released() -> None:
    averaged, plain = victim_of(spec(average=0.5)), victim_of(spec())
    for name, value in plain.model.state_dict().items():
        torch.testing.assert_close(averaged.checkpoints[-1].weights[name], value)
    assert not torch.allclose(
        averaged.model.state_dict()["layers.0.weight"], plain.model.state_dict()["layers.0.weight"]
    )


def test_of_a_cnn_it_has_the_statistics_too_and_of_a_frozen_layer_no_gradient() -> None:
    cnn = victim_of(spec(CNNSpec(channels=(4,), hidden=(7,), outputs=5)))
    assert cnn.checkpoints[0].weights.keys() == cnn.model.state_dict().keys()
    tuned = victim_of(spec(last_layers=1))
    assert tuned.checkpoints[0].first.keys() == {"layers.2.weight", "layers.2.bias"}
    assert "layers.0.weight" in tuned.checkpoints[0].weights


def test_it_comes_back_from_the_cache_and_a_damaged_file_is_told_and_made_again() -> None:
    victim, notices = victim_of(spec(optimiser="adamw")), list[str]()
    path = victim_folder(victim.spec, fingerprint("digits", None)) / CHECKPOINTS
    for damage in (False, True):
        if damage:
            path.write_bytes(path.read_bytes()[:-4])
        again = obtain(victim.spec, None, CPU, lambda progress: None, notices.append)
        for one, other in zip(again.checkpoints, victim.checkpoints, strict=True):
            assert (one.steps, one.lr, one.betas) == (other.steps, other.lr, other.betas)
            assert all(torch.equal(value, other.packed()[name]) for name, value in one.packed().items())
    assert [str(path.parent) in notice and path.name in notice for notice in notices] == [True]


def test_who_is_told_of_it_has_a_copy_and_nobody_is_told_what_was_kept_back() -> None:
    victim = victim_of(spec())
    needs = frozenset({Knowledge.CHECKPOINTS})
    view = view_of(victim, needs, CPU)
    for state in (*view.checkpoints, *view_of(victim, needs, CPU)._facts[Knowledge.CHECKPOINTS]):
        state.weights["layers.0.weight"].zero_()
    for states in (view.checkpoints, victim.checkpoints):
        assert all(bool(state.weights["layers.0.weight"].any()) for state in states)
    defended = spec().model_copy(update={"defences": (Noise(strength=0.1),)})
    told = [Knowledge.CHECKPOINTS in tellable(one) for one in (spec(), spec(checkpoints=(3,)), defended)]
    assert told == [True, False, False]
    kept_back = replace(victim, card=victim.card.model_copy(update={"spec": defended}))
    assert view_of(kept_back, needs, CPU).checkpoints == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"checkpoints": (3, 2)}, "epochs that rise"),
        ({"checkpoints": (2, 6)}, "none after the last, 5"),
        ({"lora_rank": 2}, "a low-rank update trains two factors"),
    ],
)
def test_epochs_that_there_are_not_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        spec(**changes)


def test_a_victim_without_it_has_the_key_it_had() -> None:
    assert "checkpoints" not in spec(checkpoints=()).identity()["training"]
    assert spec().identity() != spec(checkpoints=()).identity()
    assert spec().training.label.endswith(", 2 checkpoints")
