"""What every attack and every victim that ships must hold, whatever it does."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attacks.base import Attack, AttackContext, AttackParams, Knowledge, Reconstruction, UndeclaredKnowledgeError
from bench import registry
from bench.view import view_of
from victims.base import Victim
from victims.cache import obtain
from victims.spec import ConvSpec, DecayedDescent, GradientDescent, MLPSpec, NormalizedDescent, Regularised, VictimSpec

ATTACKS = registry.attacks().items
DATASET_ATTACKS = {name: attack for name, attack in ATTACKS.items() if attack.setting == "dataset"}
VICTIMS = {name: spec for name, spec in registry.victims().items.items() if isinstance(spec, VictimSpec)}
CPU = torch.device("cpu")
CHEAP = {"steps": 20, "restarts": 2, "candidates": 12, "lower_steps": 30, "inverse_steps": 20}
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
        VictimSpec(
            name="digits-mlp-6-biases",
            dataset="digits",
            n=6,
            architecture=MLPSpec(hidden=(12, 10), biases="all"),
            training=NormalizedDescent(steps=60),
        ),
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
        VictimSpec(
            name="faces-mlp-4-wd",
            dataset="faces",
            n=4,
            architecture=MLPSpec(hidden=(8,)),
            training=Regularised(steps=50),
        ),
        VictimSpec(
            name="digits-mlp-6-affine", dataset="digits", n=6, architecture=MLPSpec(hidden=()), training=Regularised()
        ),
    )
}

DEFAULTS = ((MLPSpec(), NormalizedDescent()), (ConvSpec(), DecayedDescent()))
"""Architecture and recipe of the victims that are named without a variant."""

every_attack = pytest.mark.parametrize("attack", DATASET_ATTACKS.values(), ids=DATASET_ATTACKS)
every_victim = pytest.mark.parametrize("spec", VICTIMS.values(), ids=VICTIMS)
every_tiny = pytest.mark.parametrize("tiny", SPECS)


def cheap(attack: type[Attack[Any]], **more: Any) -> AttackParams:
    """The attack's defaults, but for what makes it slow."""
    return attack.Params(**{name: CHEAP[name] for name in CHEAP if name in attack.Params.model_fields} | more)


def victim_of(name: str) -> Victim:
    return obtain(SPECS[name], None, CPU, lambda progress: None, lambda notice: None)


def reconstruct(attack: type[Attack[Any]], victim: Victim, seed: int = 0) -> Reconstruction:
    context = AttackContext(CPU, torch.Generator().manual_seed(seed), lambda step, steps, **figures: None)
    chosen = attack(cheap(attack))
    return chosen.reconstruct(view_of(victim, chosen.knowledge, CPU), context)


@every_attack
@every_tiny
def test_an_attack_returns_images_and_leaves_no_trace(
    attack: type[Attack[Any]],
    tiny: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    victim = victim_of(tiny)
    if attack(cheap(attack)).supports(victim.spec) is not None:
        pytest.skip("declines this victim")
    weights, split = deepcopy(victim.model.state_dict()), deepcopy(victim.split)
    monkeypatch.chdir(tmp_path)
    folder = set(tmp_path.rglob("*"))
    capfd.readouterr()
    found = reconstruct(attack, victim)

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
    assert found.grad_evals >= 0

    assert tuple(capfd.readouterr()) == ("", "")
    assert set(tmp_path.rglob("*")) == folder
    assert all(torch.equal(value, weights[name]) for name, value in victim.model.state_dict().items())
    for name in ("inputs", "labels", "mean", "test_inputs"):
        assert np.array_equal(getattr(victim.split, name), getattr(split, name))


@every_attack
@every_tiny
def test_an_attack_depends_on_its_seed_alone(attack: type[Attack[Any]], tiny: str) -> None:
    victim = victim_of(tiny)
    if attack(cheap(attack)).supports(victim.spec) is not None:
        pytest.skip("declines this victim")
    torch.manual_seed(1)
    first = reconstruct(attack, victim).candidates
    torch.manual_seed(2)
    second, other = reconstruct(attack, victim).candidates, reconstruct(attack, victim, seed=1).candidates

    assert torch.equal(first, second)
    assert torch.equal(first, other) == (attack.name in DETERMINISTIC)


@every_attack
def test_an_attack_needs_what_it_declares(attack: type[Attack[Any]]) -> None:
    """Without one of its declared items it cannot run: nothing is declared that is not read."""
    victim = next(victim for victim in map(victim_of, SPECS) if attack(cheap(attack)).supports(victim.spec) is None)
    assert attack(cheap(attack)).knowledge == attack.needs
    for item in attack.needs:
        context = AttackContext(CPU, torch.Generator().manual_seed(0), lambda step, steps, **figures: None)
        view = view_of(victim, attack.needs - {item}, CPU)
        with pytest.raises(UndeclaredKnowledgeError, match=item.value):
            attack(cheap(attack)).reconstruct(view, context)


def test_tied_coefficients_are_told_loss_and_weight_decay() -> None:
    attack = ATTACKS["kkt-general"]
    tied = attack(cheap(attack, coefficients="tied"))
    victim = victim_of("digits-conv-6-tiny")
    more = tied.knowledge - attack.needs
    assert {item.value for item in more} == {"loss", "weight decay", "class balance"}
    for item in more:
        context = AttackContext(CPU, torch.Generator().manual_seed(0), lambda step, steps, **figures: None)
        with pytest.raises(UndeclaredKnowledgeError, match=item.value):
            tied.reconstruct(view_of(victim, tied.knowledge - {item}, CPU), context)
    assert "no weight decay" in str(tied.supports(SPECS["faces-mlp-4-grey"]))


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_describes_itself(attack: type[Attack[Any]]) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", attack.name)
    assert attack.summary
    assert "\n" not in attack.summary
    assert attack.paper or attack.control
    assert attack.needs <= set(Knowledge)
    assert issubclass(attack.Params, AttackParams)
    assert attack.setting == "dataset" or attack.protocol == "balle2022"
    assert (
        attack.Params().model_dump()
        == attack.Params.model_validate_json(attack.Params().model_dump_json()).model_dump()
    )
    for variant, values in attack.variants.items():
        assert re.fullmatch(r"[a-z0-9-]+", variant)
        assert attack.Params(**values) != attack.Params()
    if attack.control:
        assert "candidates" in attack.Params.model_fields
    for name in attack.Params.model_fields:
        assert f"{name}:" in (attack.Params.__doc__ or ""), f"{name} is not documented"


@every_attack
def test_an_attack_answers_for_every_victim(attack: type[Attack[Any]]) -> None:
    for spec in VICTIMS.values():
        reason = attack(attack.Params()).supports(spec)
        assert reason is None or (isinstance(reason, str) and reason)


def test_there_is_one_control() -> None:
    assert [attack.name for attack in ATTACKS.values() if attack.control] == ["random"]


def test_the_control_returns_as_many_candidates_as_asked_for() -> None:
    victim = victim_of("faces-mlp-4-grey")
    control = ATTACKS["random"]
    view = view_of(victim, control.needs, CPU)
    context = AttackContext(CPU, torch.Generator().manual_seed(0), lambda step, steps, **figures: None)

    assert len(control(cheap(control, candidates=7)).reconstruct(view, context).candidates) == 7


# --- the view


READ: dict[Knowledge, Callable[[Any], Any]] = {
    Knowledge.ARCHITECTURE: lambda view: view.architecture,
    Knowledge.WEIGHTS: lambda view: view.weights,
    Knowledge.CLASS_BALANCE: lambda view: view.class_balance,
    Knowledge.N: lambda view: view.n,
    Knowledge.LABELS: lambda view: view.labels,
    Knowledge.DATA_MEAN: lambda view: view.data_mean,
    Knowledge.LOSS: lambda view: view.loss,
    Knowledge.WEIGHT_DECAY: lambda view: view.weight_decay,
    Knowledge.SHADOW_POOL: lambda view: view.shadow_pool,
    Knowledge.LOGITS: lambda view: view.logits(torch.zeros(2, 1, 8, 8)),
    Knowledge.TRAINING_IMAGES: lambda view: view.training_images,
}


@pytest.mark.parametrize("item", READ)
def test_the_view_hands_out_one_item_and_no_other(item: Knowledge) -> None:
    view = view_of(victim_of("digits-mlp-6-biases"), frozenset({item}), CPU)

    assert READ[item](view) is not None
    for other in set(READ) - {item}:
        with pytest.raises(UndeclaredKnowledgeError, match=f"'{other.value}'"):
            READ[other](view)


def test_the_view_tells_the_truth() -> None:
    victim = victim_of("digits-mlp-6-biases")
    view = view_of(victim, frozenset(READ), CPU)

    assert view.architecture.spec == victim.spec.architecture
    assert view.architecture.input_shape == (1, 8, 8)
    assert view.class_balance == (0.5, 0.5)
    assert view.n == 6
    assert view.labels.tolist() == victim.split.labels.tolist()
    assert np.array_equal(view.data_mean.numpy(), victim.split.mean)
    assert view.loss == "cross-entropy"
    assert view.weight_decay == 0
    assert view_of(victim_of("faces-mlp-4-wd"), frozenset(READ), CPU).weight_decay == 1e-2
    assert np.array_equal(view.training_images[0].numpy(), victim.split.inputs)
    inputs = torch.from_numpy(victim.split.test_inputs[:5])
    with torch.no_grad():
        assert torch.equal(view.logits(inputs), victim.model(inputs))
    pool, classes = view.shadow_pool
    torch.testing.assert_close(pool - pool[0], torch.from_numpy(victim.split.test_inputs - victim.split.test_inputs[0]))
    torch.testing.assert_close(pool.mean(0), torch.zeros(1, 8, 8))
    assert np.array_equal(classes.numpy(), victim.split.test_labels)
    assert all(torch.equal(value, view.weights[name]) for name, value in victim.model.state_dict().items())


# --- the victims


@every_victim
def test_a_victim_is_named_by_what_it_is(spec: VictimSpec) -> None:
    start = f"{spec.dataset}-{spec.architecture.kind}-{spec.n}"
    assert re.fullmatch(rf"{re.escape(start)}(-[a-z0-9]+)*", spec.name)
    plain = (spec.architecture, spec.training) in DEFAULTS and spec.loss == "cross-entropy"
    assert plain == (spec.name == start)


@every_victim
def test_a_victim_survives_json(spec: VictimSpec) -> None:
    assert VictimSpec.model_validate_json(spec.model_dump_json()) == spec


def test_no_two_victims_are_the_same() -> None:
    identities = [str(spec.identity()) for spec in VICTIMS.values()]
    assert len(set(identities)) == len(identities)


IDENTITY: dict[str, dict[str, Any]] = {
    "dataset": {"dataset": "digits"},
    "n": {"n": 6},
    "seed": {"seed": 2},
    "twin": {"twin": "disjoint"},
    "architecture.hidden": {"architecture": MLPSpec(hidden=(16,))},
    "architecture.biases": {"architecture": MLPSpec(biases="all")},
    "architecture.outputs": {"architecture": MLPSpec(outputs=2)},
    "architecture.kind": {"architecture": ConvSpec()},
    "architecture.kernel": {"architecture": ConvSpec(kernel=5)},
    "architecture.channels": {"architecture": ConvSpec(channels=4)},
    "loss": {"loss": "l2"},
    "architecture.first_layer_scale": {"architecture": MLPSpec(first_layer_scale=None)},
    "training.steps": {"training": NormalizedDescent(steps=61)},
    "training.rate": {"training": NormalizedDescent(rate=(1e-2, 1e-3))},
    "training.margin": {"training": NormalizedDescent(margin=5)},
    "training.momentum": {"training": NormalizedDescent(momentum=0)},
    "training.dtype": {"training": NormalizedDescent(dtype="float64")},
    "training.kind": {"training": GradientDescent()},
    "training.lr": {"training": GradientDescent(lr=0.1)},
    "training.epochs": {"training": GradientDescent(epochs=7)},
    "training.batch_size": {"training": GradientDescent(batch_size=2)},
    "training.dtype (gd)": {"training": GradientDescent(dtype="float32")},
    "training.weight_decay (gd)": {"training": GradientDescent(weight_decay=1e-3)},
    "training.kind (decayed)": {"training": DecayedDescent()},
    "training.weight_decay (decayed)": {"training": DecayedDescent(weight_decay=2e-3)},
    "training.weight_decay": {"training": Regularised(weight_decay=1e-3)},
    "training.tolerance": {"training": Regularised(tolerance=1e-3)},
    "training.steps (regularised)": {"training": Regularised(steps=60)},
}


def test_the_identity_is_all_that_determines_the_weights() -> None:
    plain = VictimSpec(name="a", dataset="faces", n=4)
    changed = [plain, *(plain.model_copy(update=changes) for changes in IDENTITY.values())]
    identities = [str(spec.identity()) for spec in changed]
    assert len(set(identities)) == len(identities)

    named = plain.model_copy(update={"name": "b", "reported_test_accuracy": 0.5})
    assert named.identity() == plain.identity()


def test_every_field_of_a_spec_is_tried() -> None:
    fields = {"name", "reported_test_accuracy", "twin", *(name.partition(".")[0] for name in IDENTITY)}
    assert fields == set(VictimSpec.model_fields)
    tried = {name.partition(".")[2].partition(" ")[0] for name in IDENTITY}
    for model in (MLPSpec, ConvSpec, NormalizedDescent, GradientDescent, DecayedDescent, Regularised):
        assert set(model.model_fields) - {"kind"} <= tried
