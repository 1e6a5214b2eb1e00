"""What every attack and every victim of the informed adversary must hold, whatever it does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from attacks.base import Attack, AttackContext, AttackParams, Reconstruction, UndeclaredKnowledgeError
from bench import registry
from bench.view import view_of
from victims.informed.cache import obtain
from victims.informed.spec import DenseSpec, Descent, GLMSpec, InformedSpec
from victims.informed.victim import InformedVictim

ATTACKS = {name: attack for name, attack in registry.attacks().items.items() if attack.setting == "informed"}
VICTIMS = {name: spec for name, spec in registry.victims().items.items() if spec.setting == "informed"}
CPU = torch.device("cpu")
CHEAP: dict[str, Any] = {
    **{"shadows": 20, "epochs": 2, "hidden": (8,)},  # reconn
    **{"labels": 1, "trial": 2, "evaluations": 2, "hardest": 1, "retries": 0},  # unroll
}
"""Parameters of attacks that make a test of them quick."""
SPECS: dict[str, InformedSpec | GLMSpec] = {
    "network": InformedSpec(
        name="digits-elu4-30",
        dataset="digits",
        n=30,
        targets=4,
        architecture=DenseSpec(hidden=(4,)),
        training=Descent(epochs=3),
    ),
    "glm": GLMSpec(name="cancer-logistic-tiny", dataset="cancer", n=60, targets=4),
}

every_attack = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
every_tiny = pytest.mark.parametrize("tiny", SPECS)
every_victim = pytest.mark.parametrize("spec", VICTIMS.values(), ids=VICTIMS)


def cheap(attack: type[Attack[Any]]) -> AttackParams:
    return attack.Params(**{name: CHEAP[name] for name in CHEAP if name in attack.Params.model_fields})


def victim_of(tiny: str) -> InformedVictim:
    return obtain(SPECS[tiny], None, CPU, lambda done, total: None, lambda line: None)


def reconstruct(attack: type[Attack[Any]], victim: InformedVictim, seed: int = 0) -> Reconstruction:
    context = AttackContext(CPU, torch.Generator().manual_seed(seed), lambda step, steps, **figures: None)
    chosen = attack(cheap(attack))
    return chosen.reconstruct(view_of(victim, chosen.knowledge, CPU), context)


@every_attack
@every_tiny
def test_an_attack_returns_a_candidate_for_every_target(
    attack: type[Attack[Any]],
    tiny: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    victim = victim_of(tiny)
    if attack(cheap(attack)).supports(victim.spec) is not None:
        pytest.skip("declines this victim")
    monkeypatch.chdir(tmp_path)
    folder = set(tmp_path.rglob("*"))
    capfd.readouterr()
    torch.manual_seed(1)
    found = reconstruct(attack, victim)
    torch.manual_seed(2)
    again = reconstruct(attack, victim)

    assert found.candidates.dtype == torch.float32
    assert found.candidates.shape == victim.split.targets.images.shape
    assert not found.candidates.requires_grad
    assert torch.equal(found.candidates, again.candidates)
    for value in (found.labels, found.coefficients, found.confidence):
        assert value is None or len(value) == len(found.candidates)
    assert tuple(capfd.readouterr()) == ("", "")
    assert set(tmp_path.rglob("*")) == folder


@every_attack
def test_an_attack_needs_what_it_declares(attack: type[Attack[Any]]) -> None:
    """Without one of its declared items it cannot run: nothing is declared that is not read."""
    victim = next(victim for victim in map(victim_of, SPECS) if attack(cheap(attack)).supports(victim.spec) is None)
    for item in attack(cheap(attack)).knowledge:
        context = AttackContext(CPU, torch.Generator().manual_seed(0), lambda step, steps, **figures: None)
        view = view_of(victim, attack.needs - {item}, CPU)
        with pytest.raises(UndeclaredKnowledgeError, match=item.value):
            attack(cheap(attack)).reconstruct(view, context)


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
