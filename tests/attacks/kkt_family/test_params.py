"""The parameters of a method: a value either changes what comes out, or is refused."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from attacking import AFFINE, CLASSES, MARGIN, attacked, quick, victim_of
from pydantic import ValidationError

from attacks.base import Attack, Reconstruction
from attacks.kkt import KKT
from attacks.kkt_family.params import SearchParams
from attacks.kkt_general import KKTGeneral
from attacks.kkt_multiclass import KKTMulticlass
from attacks.kkt_span import KKTSpan, KKTSpanParams
from bench.plan import registry
from bench.plan.options import attack_params
from victims.errors import UserError
from victims.spec import DecayedDescent, VictimSpec

CHANGED: dict[str, Any] = {
    "candidates": 7,
    "restarts": 3,
    "steps": 21,
    "lr": 0.002,
    "lambda_lr": 0.1,
    "init": "uniform",
    "init_scale": 0.02,
    "alpha": 20.0,
    "first_alpha": 5.0,
    "gate_power": 0.5,
    "offset_price": 1e-4,
    "layer_weights": (1.0, 0.5),
    "coordinate_power": 0.1,
    "residual_power": 0.1,
    "neuron_power": 0.1,
    "sparsity": 0.1,
    "smoothness": 0.1,
    "signal_span": 0.1,
    "activation_span": 0.1,
    "dtype": "float64",
    "lambda_min": 5.0,
    "rivals": "runner-up",
    "coefficients": "tied",
    "ranking": "evidence",
}
"""A value other than the default, of all parameters but `mixture` and those of ROUNDING."""
ROUNDING = {"restarts_per_batch", "products"}
"""Parameters that change rounding alone, if anything."""
STATIONARY = CLASSES.model_copy(update={"training": DecayedDescent(steps=1500)})
"""W2 shows a span of activations: its start is forgotten."""
SHORT: dict[str, Any] = {"steps": 20, "restarts": 2, "candidates": 12, "lr": 1e-3}


def outcome(attack: type[Attack[Any]], **values: Any) -> list[Any]:
    found: Reconstruction = attacked(attack(attack.Params(**SHORT | values)), victim_of(STATIONARY))
    return [part.tolist() for part in (found.candidates, found.coefficients, found.confidence) if part is not None]


@pytest.mark.parametrize("method", ["row-space", "published"])
@pytest.mark.parametrize("attack", [KKTMulticlass, KKTGeneral])
def test_a_value_changes_what_comes_out_or_is_refused(
    attack: type[Attack[Any]], method: Literal["row-space", "published"]
) -> None:
    plain, refused = outcome(attack, method=method), set()
    for name in attack.Params.model_fields.keys() - {"method", "mixture"} - ROUNDING:
        try:
            assert outcome(attack, method=method, **{name: CHANGED[name]}) != plain, name
        except ValidationError:
            refused.add(name)
    assert refused == (attack.Params.unused[method] - ROUNDING) & attack.Params.model_fields.keys()


def test_what_a_method_does_not_use_is_one_clear_line() -> None:
    for variant, setting, method in (
        ("paper", {"sparsity": 0.1}, "published"),
        ("paper", {"restarts_per_batch": 2}, "published"),
        ("paper", {"products": "bfloat16"}, "published"),
        ("", {"lambda_min": 0.5}, "row-space"),
    ):
        ((name, value),) = setting.items()
        with pytest.raises(UserError) as refused:
            attack_params(KKT, variant, setting)
        assert str(refused.value) == f"--set {name}={value!r}: method={method} does not use it"


def test_weights_under_which_no_layer_counts_are_one_clear_line() -> None:
    with pytest.raises(UserError, match="at least one layer must have a weight above 0"):
        attack_params(KKT, "", {"layer_weights": [0]})
    second = KKT(KKT.Params(layer_weights=(0, 1)))
    assert second.supports(MARGIN) is None
    assert str(second.supports(AFFINE)).startswith("layer_weights has no weight above 0")


def test_a_price_of_gates_is_declined_where_there_are_none() -> None:
    for attack in (KKT(KKT.Params(offset_price=1e-6)), KKTSpan(KKTSpan.Params(round_offset_price=1e-6))):
        assert "offset_price prices gates, and it has no hidden layer" in str(attack.supports(AFFINE))
        assert attack.supports(MARGIN) is None


def test_kkt_span_pays_for_leaving_both_spans_unless_told_otherwise() -> None:
    plain = outcome(KKTSpan)
    assert outcome(KKTSpan, activation_span=0.0) != plain
    assert outcome(KKTSpan, signal_span=0.0) != plain


@pytest.mark.parametrize(("spec", "told"), [(CLASSES, True), (STATIONARY, False)], ids=["stopped early", "to the end"])
def test_that_errors_alone_have_a_price_is_told(spec: VictimSpec, told: bool) -> None:
    flag = "W2 shows too few activations: errors alone have a price"
    assert (flag in attacked(KKTSpan(KKTSpanParams(**SHORT)), victim_of(spec)).flags) == told
    assert flag not in attacked(KKTSpan(KKTSpanParams(**SHORT, activation_span=0)), victim_of(spec)).flags


def test_all_parameters_of_a_stored_run_are_read_back() -> None:
    """A record holds every parameter, and those that the method does not use have their defaults."""
    for attack in registry.attacks().items.values():
        for variant in ("", *attack.variants):
            params = attack_params(attack, variant, {})
            assert attack.Params.model_validate_json(params.model_dump_json()) == params
    assert quick(KKT, {"sparsity": 0.0, "method": "published"}) == KKT.Params(method="published")


def test_gates_sharpen_geometrically_from_the_first_step_to_the_last() -> None:
    params = SearchParams(steps=3, first_alpha=2.0, alpha=32.0)
    assert [params.sharpness(step) for step in (1, 2, 3)] == pytest.approx([2, 8, 32])
    assert SearchParams(steps=1, first_alpha=2.0, alpha=32.0).sharpness(1) == 32
    assert SearchParams(alpha=32.0).sharpness(7) == 32


def test_a_parameter_that_was_added_is_in_a_dump_once_it_is_set() -> None:
    params = SearchParams(gate_power=0.5)
    assert params.model_dump()["gate_power"] == 0.5
    assert not {"first_alpha", "gate_power", "offset_price", "products", "ranking"} & SearchParams().model_dump().keys()
    assert SearchParams.model_validate(params.model_dump()) == params


def test_the_published_regression_moves_its_coefficients_at_the_authors_default_rate() -> None:
    """Its arguments (reconstruct_regression_run1) set no extraction_lambda_lr."""
    assert attack_params(KKTGeneral, "paper", {}).model_dump()["lambda_lr"] == 1e-4
