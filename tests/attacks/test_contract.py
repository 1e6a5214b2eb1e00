"""What every attack that ships must hold, whatever it does."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from attacking import (
    AFFINE,
    BATCH_NORM,
    BIASES,
    CPU,
    DECAYED,
    KERNEL,
    ORDINARY,
    RANDOM_FEATURES,
    attacked,
    context,
    quick,
    victim_of,
)

from attacks.base import Attack, AttackParams, Knowledge, UndeclaredKnowledgeError
from attacks.span_rounds import rounds
from bench.plan import registry
from bench.run.disclosure import view_of
from bench.scoring import PROTOCOLS
from victims.spec import ConvSpec, DecayedDescent, MLPSpec, NormalizedDescent, RandomFeaturesSpec, VictimSpec

ATTACKS = registry.attacks().items
DATASET_ATTACKS = {name: attack for name, attack in ATTACKS.items() if attack.setting == "dataset"}
VICTIMS = {name: spec for name, spec in registry.victims().items.items() if isinstance(spec, VictimSpec)}
CHEAP = {"starts": 2, "steps": 20, "restarts": 2, "candidates": 12, "lower_steps": 30, "inverse_steps": 20, "rounds": 2}
CHEAP |= {"free_steps": 10, "round_steps": 5, "image_steps": 20, "replay_steps": 4, "most": 6, "iterations": 10}
ROUNDS_OF_ONE = {"kkt-span": {"restarts": 1}}
"""Attacks whose rounds go with one restart."""
DETERMINISTIC = {"first-layer", "class-mean"}
SPECS = {
    spec.name: spec
    for spec in (
        VictimSpec(
            name="faces-mlp-4-grey",
            dataset="faces",
            n=4,
            architecture=MLPSpec(hidden=(16, 16)),
            training=NormalizedDescent(steps=60),
        ),
        BIASES,
        VictimSpec(
            name="digits-mlp-6-c3",
            dataset="digits",
            n=6,
            architecture=MLPSpec(hidden=(12, 10), outputs=3),
            training=NormalizedDescent(steps=60),
        ),
        VictimSpec(
            name="faces-mlp-4-l2",
            dataset="faces",
            n=4,
            architecture=MLPSpec(hidden=(16, 16)),
            loss="l2",
            training=DecayedDescent(steps=60),
        ),
        VictimSpec(
            name="digits-conv-6-tiny",
            dataset="digits",
            n=6,
            architecture=ConvSpec(channels=4, hidden=(10,)),
            training=DecayedDescent(steps=20),
        ),
        DECAYED,
        ORDINARY,
        BATCH_NORM,
        RANDOM_FEATURES,
        KERNEL,
        AFFINE,
    )
}

every_attack = pytest.mark.parametrize("attack", DATASET_ATTACKS.values(), ids=DATASET_ATTACKS)
every_tiny = pytest.mark.parametrize("tiny", SPECS)


def cheap(attack: type[Attack[Any]], **more: Any) -> Attack[Any]:
    """An attack with its defaults, but for what makes it slow."""
    return attack(quick(attack, CHEAP | ROUNDS_OF_ONE.get(attack.name, {}) | more))


@pytest.fixture(autouse=True)
def settling_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "SETTLE_STEPS", 5)


@every_attack
@every_tiny
def test_an_attack_returns_images_that_its_seed_alone_decides_and_leaves_no_trace(
    attack: type[Attack[Any]], tiny: str, leaving_no_trace: Callable[[], AbstractContextManager[None]]
) -> None:
    victim = victim_of(SPECS[tiny])
    if cheap(attack).supports(victim.spec) is not None:
        pytest.skip("declines this victim")
    weights, split = deepcopy(victim.model.state_dict()), deepcopy(victim.split)
    torch.manual_seed(1)
    with leaving_no_trace():
        found = attacked(cheap(attack), victim)

    candidates = found.candidates
    assert candidates.dtype == torch.float32
    assert candidates.shape[1:] == victim.split.inputs.shape[1:]
    assert len(candidates) > 0
    assert candidates.isfinite().all()
    assert not candidates.requires_grad
    for value in (found.labels, found.coefficients, found.confidence):
        assert value is None or (len(value) == len(candidates) and bool(value.isfinite().all()))
    assert found.labels is None or set(found.labels.tolist()) <= set(range(victim.spec.n_classes))
    assert isinstance(found.loss, float)
    assert (found.grad_evals > 0) == (attack.name not in DETERMINISTIC | {"random"})

    assert all(torch.equal(value, weights[name]) for name, value in victim.model.state_dict().items())
    for name in ("inputs", "labels", "mean", "test_inputs"):
        assert np.array_equal(getattr(victim.split, name), getattr(split, name))

    torch.manual_seed(2)
    second, other = attacked(cheap(attack), victim).candidates, attacked(cheap(attack), victim, seed=1).candidates
    assert torch.equal(candidates, second)
    assert torch.equal(candidates, other) == (attack.name in DETERMINISTIC)


@every_attack
def test_an_attack_needs_what_it_declares(attack: type[Attack[Any]]) -> None:
    """Without one of its declared items it cannot run: nothing is declared that is not read."""
    victim = victim_of(next(spec for spec in SPECS.values() if cheap(attack).supports(spec) is None))
    assert cheap(attack).knowledge == attack.needs
    for item in attack.needs:
        view = view_of(victim, attack.needs - {item}, CPU)
        with pytest.raises(UndeclaredKnowledgeError, match=item.value):
            cheap(attack).reconstruct(view, context())


def test_tied_coefficients_are_told_the_loss() -> None:
    attack = ATTACKS["kkt-general"]
    tied = cheap(attack, coefficients="tied")
    victim = victim_of(SPECS["digits-conv-6-tiny"])
    more = tied.knowledge - attack.needs
    assert {item.value for item in more} == {"loss", "class balance"}
    for item in more:
        with pytest.raises(UndeclaredKnowledgeError, match=item.value):
            tied.reconstruct(view_of(victim, tied.knowledge - {item}, CPU), context())
    assert "no weight decay" in str(tied.supports(SPECS["faces-mlp-4-grey"]))


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_describes_itself(attack: type[Attack[Any]]) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", attack.name)
    assert attack.summary
    assert "\n" not in attack.summary
    assert attack.paper or attack.control
    assert attack.needs <= set(Knowledge)
    assert issubclass(attack.Params, AttackParams)
    assert attack.setting == "dataset" or PROTOCOLS[attack.protocol].matching == "aligned"
    assert (
        attack.Params().model_dump()
        == attack.Params.model_validate_json(attack.Params().model_dump_json()).model_dump()
    )
    for variant, values in attack.variants.items():
        assert re.fullmatch(r"[a-z0-9-]+", variant)
        assert attack.Params(**values) != attack.Params()
    for name in attack.Params.model_fields:
        assert f"{name}:" in (attack.Params.__doc__ or ""), f"{name} is not documented"


@every_attack
def test_an_attack_answers_for_every_victim(attack: type[Attack[Any]]) -> None:
    for spec in VICTIMS.values():
        reason = attack(attack.Params()).supports(spec)
        assert reason is None or (isinstance(reason, str) and reason)


@pytest.mark.parametrize("name", ["kkt-multiclass", "kkt-general", "kkt-span"])
def test_no_kkt_attack_takes_a_first_layer_that_is_not_learnt_for_a_sum_over_images(name: str) -> None:
    ten = RANDOM_FEATURES.model_copy(update={"architecture": RandomFeaturesSpec(outputs=10)})
    assert "a first layer that is not learnt" in str(cheap(ATTACKS[name]).supports(ten))


@pytest.mark.parametrize("name", ["kkt-general", "kkt-span"])
def test_a_convolution_is_sent_to_the_attack_that_takes_it(name: str) -> None:
    """Nobody is sent in circles: what a declining attack names takes the network, whatever its number of outputs."""
    for outputs, other in ((1, "kkt-conv"), (10, "conv-span")):
        network = ConvSpec(channels=4, hidden=(10,), outputs=outputs)
        spec = SPECS["digits-conv-6-tiny"].model_copy(update={"architecture": network})
        reason = cheap(ATTACKS[name]).supports(spec)
        assert f"use {other}" in str(reason)
        assert cheap(ATTACKS[other]).supports(spec) is None
    assert "use conv-span" in str(cheap(ATTACKS["kkt-conv"]).supports(spec))


def test_controls_declare_that_they_are_and_one_draws_at_random() -> None:
    assert [attack.name for attack in ATTACKS.values() if attack.control] == ["class-mean", "random"]
    assert registry.random_control(registry.attacks()) is ATTACKS["random"]


def test_the_control_returns_as_many_candidates_as_asked_for() -> None:
    control = cheap(ATTACKS["random"], candidates=7)

    assert len(attacked(control, victim_of(SPECS["faces-mlp-4-grey"])).candidates) == 7
