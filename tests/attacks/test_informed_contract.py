"""What every attack and every victim of the informed adversary must hold, whatever it does."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest
import torch
from attacking import CPU, attacked, context, digits_network, quick, victim_of

from attacks.base import Attack, UndeclaredKnowledgeError
from attacks.context import Budget
from bench.plan import registry
from bench.run.disclosure import view_of
from victims.informed.spec import Descent, GLMSpec, InformedSpec
from victims.recipes import Privacy

ATTACKS = {name: attack for name, attack in registry.attacks().items.items() if attack.setting == "informed"}
VICTIMS = {name: spec for name, spec in registry.victims().items.items() if spec.setting == "informed"}
CHEAP: dict[str, Any] = {
    **{"shadows": 20, "epochs": 2, "hidden": (8,)},  # reconn
    **{"labels": 1, "trial": 2, "evaluations": 2, "hardest": 1, "retries": 0},  # unroll
}
"""Parameters of attacks that make a test of them quick."""
SPECS: dict[str, InformedSpec | GLMSpec] = {
    "network": digits_network(n=30, targets=4, epochs=3),
    "trace": digits_network(n=30, targets=4, epochs=3).model_copy(
        update={"name": "digits-elu4-30-trace", "training": Descent(epochs=3, privacy=Privacy()), "prior": 2}
    ),
    "glm": GLMSpec(name="cancer-logistic-tiny", dataset="cancer", n=60, targets=4),
}

every_attack = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
every_tiny = pytest.mark.parametrize("tiny", SPECS)
every_victim = pytest.mark.parametrize("spec", VICTIMS.values(), ids=VICTIMS)


def cheap(attack: type[Attack[Any]]) -> Attack[Any]:
    return attack(quick(attack, CHEAP))


@every_attack
@every_tiny
def test_an_attack_returns_a_candidate_for_every_target(
    attack: type[Attack[Any]], tiny: str, leaving_no_trace: Callable[[], AbstractContextManager[None]]
) -> None:
    victim = victim_of(SPECS[tiny])
    if cheap(attack).supports(victim.spec) is not None:
        pytest.skip("declines this victim")
    with leaving_no_trace():
        torch.manual_seed(1)
        found = attacked(cheap(attack), victim)
        torch.manual_seed(2)
        again = attacked(cheap(attack), victim)

    assert found.candidates.dtype == torch.float32
    assert found.candidates.shape == victim.split.targets.images.shape
    assert not found.candidates.requires_grad
    assert torch.equal(found.candidates, again.candidates)
    for value in (found.labels, found.coefficients, found.confidence):
        assert value is None or len(value) == len(found.candidates)


@every_attack
def test_an_attack_needs_what_it_declares(attack: type[Attack[Any]]) -> None:
    """Without one of its declared items it cannot run: nothing is declared that is not read."""
    victim = victim_of(next(spec for spec in SPECS.values() if cheap(attack).supports(spec) is None))
    for item in cheap(attack).knowledge:
        view = view_of(victim, attack.needs - {item}, CPU)
        with pytest.raises(UndeclaredKnowledgeError, match=item.value):
            cheap(attack).reconstruct(view, context())


@pytest.mark.parametrize("name", ["reconn", "unroll"])
def test_a_budget_ends_an_attack_at_its_best_so_far(name: str) -> None:
    victim, attack = victim_of(SPECS["network"]), cheap(ATTACKS[name])
    ctx = replace(context(), budget=Budget(steps=1))
    found = attack.reconstruct(view_of(victim, attack.knowledge, CPU), ctx)
    free = attacked(attack, victim)
    assert ctx.stopped
    assert 0 < found.grad_evals < free.grad_evals
    assert found.candidates.shape == free.candidates.shape
    assert bool(found.candidates.isfinite().all())


@every_attack
def test_an_attack_answers_for_every_victim(attack: type[Attack[Any]]) -> None:
    for spec in VICTIMS.values():
        reason = attack(attack.Params()).supports(spec)
        assert reason is None or (isinstance(reason, str) and reason)


@every_victim
def test_a_victim_is_named_by_its_data_and_survives_json(spec: InformedSpec | GLMSpec) -> None:
    assert re.fullmatch(rf"{spec.dataset}-[a-z0-9]+(-[a-z0-9]+)*", spec.name)
    assert isinstance(spec, GLMSpec) or str(spec.n) in spec.name.split("-")
    assert type(spec).model_validate_json(spec.model_dump_json()) == spec


def test_no_two_victims_are_the_same() -> None:
    identities = [str(spec.identity()) for spec in VICTIMS.values()]
    assert len(set(identities)) == len(identities)
