"""What every victim that ships must hold, and what of a spec determines the weights."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bench.plan import registry
from victims.defences.spec import Noise
from victims.kernel.spec import KernelSpec
from victims.spec import (
    ConvSpec,
    DecayedDescent,
    GradientDescent,
    GramGaussNewton,
    MLPSpec,
    NormalizedDescent,
    Regularised,
    VictimSpec,
)
from victims.zoo.barzilai2025 import NAMES

VICTIMS = {name: spec for name, spec in registry.victims().items.items() if isinstance(spec, VictimSpec)}
DEFAULTS = ((MLPSpec(), NormalizedDescent()), (ConvSpec(), DecayedDescent()))
"""Architecture and recipe of the victims that are named without a variant."""

every_victim = pytest.mark.parametrize("spec", VICTIMS.values(), ids=VICTIMS)


@every_victim
def test_a_victim_is_named_by_what_it_is(spec: VictimSpec) -> None:
    if isinstance(spec.architecture, KernelSpec):
        kind, plain = NAMES[spec.architecture.model], spec.architecture.kernel == "laplace"
    else:
        plain = (spec.architecture, spec.training) in DEFAULTS and spec.loss == "cross-entropy"
        kind = spec.architecture.kind.replace("smooth", "mlp")
    start = f"{spec.dataset}-{kind}-{spec.n}"
    assert re.fullmatch(rf"{re.escape(start)}(-[a-z0-9]+)*", spec.name)
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
    "defences": {"defences": (Noise(strength=0.1),)},
    "architecture.hidden": {"architecture": MLPSpec(hidden=(16,))},
    "architecture.biases": {"architecture": MLPSpec(biases="all")},
    "architecture.outputs": {"architecture": MLPSpec(outputs=2)},
    "architecture.kind": {"architecture": ConvSpec()},
    "architecture.kernel": {"architecture": ConvSpec(kernel=5)},
    "architecture.channels": {"architecture": ConvSpec(channels=4)},
    "architecture.channels (two)": {"architecture": ConvSpec(channels=(32, 32))},
    "loss": {"loss": "l2"},
    "architecture.first_layer_scale": {"architecture": MLPSpec(first_layer_scale=None)},
    "training.steps": {"training": NormalizedDescent(steps=61)},
    "training.rate": {"training": NormalizedDescent(rate=(1e-2, 1e-3))},
    "training.margin": {"training": NormalizedDescent(margin=5)},
    "training.momentum": {"training": NormalizedDescent(momentum=0)},
    "retraining": {"retraining": 1},
    "training.dtype": {"training": NormalizedDescent(dtype="float64")},
    "training.stop_loss": {"training": NormalizedDescent(stop_loss=0.1)},
    "training.stop_loss (gd)": {"training": GradientDescent(stop_loss=0.1)},
    "training.stop_loss (decayed)": {"training": DecayedDescent(stop_loss=0.1)},
    "training.stop_residual": {"training": NormalizedDescent(stop_residual=0.1)},
    "training.stop_residual (decayed)": {"training": DecayedDescent(stop_residual=0.1)},
    "training.products (decayed)": {"training": DecayedDescent(products="bfloat16")},
    "training.kind": {"training": GradientDescent()},
    "training.lr": {"training": GradientDescent(lr=0.1)},
    "training.epochs": {"training": GradientDescent(epochs=7)},
    "training.batch_size": {"training": GradientDescent(batch_size=2)},
    "training.dtype (gd)": {"training": GradientDescent(dtype="float32")},
    "training.weight_decay (gd)": {"training": GradientDescent(weight_decay=1e-3)},
    "training.kind (decayed)": {"training": DecayedDescent()},
    "training.corners": {"training": DecayedDescent(corners=(0.1,))},
    "training.iterations": {"training": DecayedDescent(corners=(0.1,), iterations=5)},
    "training.weight_decay (decayed)": {"training": DecayedDescent(weight_decay=2e-3)},
    "training.weight_decay": {"training": Regularised(weight_decay=1e-3)},
    "training.tolerance": {"training": Regularised(tolerance=1e-3)},
    "training.kind (gram-gauss-newton)": {"training": GramGaussNewton()},
    "training.steps (gram-gauss-newton)": {"training": GramGaussNewton(steps=60)},
    "training.descent": {"training": GramGaussNewton(descent=60)},
    "training.forgotten": {"training": GramGaussNewton(forgotten=(0.5, 1e-4))},
    "training.weight_decay (gram-gauss-newton)": {"training": GramGaussNewton(weight_decay=2e-3)},
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
    for model in (MLPSpec, ConvSpec, NormalizedDescent, GradientDescent, DecayedDescent, GramGaussNewton, Regularised):
        assert set(model.model_fields) - {"kind"} <= tried


def test_gauss_newton_steps_are_for_homogeneous_regressions() -> None:
    plain: dict[str, Any] = {"name": "a", "dataset": "digits", "n": 20, "loss": "l2", "training": GramGaussNewton()}
    VictimSpec(**plain)
    for other in ({"architecture": MLPSpec(biases="all")}, {"architecture": ConvSpec()}, {"loss": "cross-entropy"}):
        with pytest.raises(ValueError, match="Gauss-Newton steps train a regression by fully connected layers"):
            VictimSpec(**plain | other)


def test_rounded_corners_are_for_fully_connected_networks() -> None:
    training = DecayedDescent(corners=(0.1,))
    VictimSpec(name="a", dataset="digits", n=20, architecture=MLPSpec(), training=training)
    with pytest.raises(ValueError, match="leave `corners` empty"):
        VictimSpec(name="a", dataset="digits", n=20, architecture=ConvSpec(), training=training)
