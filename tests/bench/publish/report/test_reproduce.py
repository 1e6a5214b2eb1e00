"""The command that runs a row again says what the row's parameters say."""

from __future__ import annotations

import json
import shlex
from collections.abc import Hashable
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.plan import registry
from bench.plan.options import attack_params, parse_seeds, parse_settings
from bench.plan.registry import Registry
from bench.publish.parameters import LONGEST, knowing, settings, summary
from bench.publish.report.reproduce import remaking, seed_list

KKT = registry.attacks().items["kkt"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


def stored(variant: str = "", **changed: Any) -> str:
    return json.dumps(attack_params(KKT, variant, changed).model_dump(mode="json"))


@pytest.mark.parametrize("variant", ["", "paper"])
def test_what_nobody_set_is_not_named(variant: str) -> None:
    assert settings("kkt", variant, stored(variant)) == {}


@pytest.mark.parametrize("variant", ["", "paper"])
def test_what_somebody_set_is_named(variant: str) -> None:
    assert settings("kkt", variant, stored(variant, steps=7)) == {"steps": 7}


def test_what_the_attack_has_no_more_is_named_where_it_was_set() -> None:
    """`--set gone=null` would be refused: the command would not lead back."""
    row = json.loads(stored("")) | {"gone": None, "left": 3}
    assert settings("kkt", "", json.dumps(row)) == {"left": 3}


def test_what_a_variant_sets_and_somebody_set_back_is_named_though_a_description_leaves_a_default_out() -> None:
    kind, back = registry.attacks().items["kkt-delta"], {"total_variation": 0.0}
    row = attack_params(kind, "uniform", back).model_dump(mode="json")
    assert "total_variation" not in row
    assert settings("kkt-delta", "uniform", json.dumps(row)) == back


def test_of_an_unknown_attack_all_is_named() -> None:
    assert settings("nobody's", "", '{"a": 1, "b": null}') == {"a": 1, "b": None}
    assert settings("kkt", "unknown", '{"steps": 300}') == {"steps": 300}


def test_of_a_variant_that_sets_what_the_attack_has_no_more_all_is_named() -> None:
    class Mine(KKT):  # type: ignore[misc, valid-type]
        variants: ClassVar[dict[str, dict[str, Any]]] = {"old": {"renamed": 3}}

    with knowing(Registry("attack", {"mine": Mine}), registry.victims()):
        assert settings("mine", "old", '{"steps": 300}') == {"steps": 300}
        assert settings("mine", "", stored(steps=7)) == {"steps": 7}


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", "3", "null"])
def test_parameters_that_are_no_object_are_none(text: str) -> None:
    assert settings("kkt", "", text) == {}


def row_of(attack: str = "kkt", variant: str = "", protocol: str = KKT.protocol) -> dict[Hashable, Any]:
    return {"attack": attack, "variant": variant, "victim": "faces-mlp-100", "protocol": protocol, "budget": ""}


def test_the_command_leads_back_to_the_parameters() -> None:
    row = stored("paper", steps=7, dtype="float32")
    words = shlex.split(remaking(row_of(variant="paper"), [0, 1, 2], settings("kkt", "paper", row)))

    assert words[:10] == ["python", "-m", "bench", "run", "-a", "kkt", "-v", "faces-mlp-100", "--seeds", "0-2"]
    assert words[10:12] == ["--variant", "paper"]
    again = attack_params(KKT, "paper", parse_settings(words[13::2]))
    assert again.model_dump(mode="json") == json.loads(row)


@given(st.dictionaries(st.text("abcxyz_", min_size=1), SCALARS))
def test_every_value_survives_shell_and_option(changed: dict[str, Any]) -> None:
    words = shlex.split(remaking(row_of("a"), [0], changed))
    assert parse_settings(words[words.index("--seeds") + 3 :: 2]) == changed


def test_a_name_cannot_run_in_the_shell() -> None:
    name = "$(touch /tmp/x); `id` ' \" \n #"
    assert shlex.split(remaking(row_of(name), [0], {}))[5] == name


def test_another_protocol_is_scored_afterwards() -> None:
    _, _, score = remaking(row_of(protocol="haim2022-min"), [0], {}).partition(" && ")
    assert score == "python -m bench score -a kkt -v faces-mlp-100 --protocol haim2022-min"


def test_the_protocol_of_a_victim_is_not_scored_again() -> None:
    """A victim with a prior, or of a table, has its own protocol, whatever the attack's is."""
    traced = {"attack": "unroll", "victim": "digits-elu10-200-trace-eps1", "protocol": "hayes2023"}
    assert " && " not in remaking(row_of() | traced, [0], {})
    assert remaking(row_of() | traced | {"protocol": "balle2022"}, [0], {}).endswith("--protocol balle2022")


@given(st.sets(st.integers(0, 50), min_size=1))
def test_seeds_read_as_they_are_written(seeds: set[int]) -> None:
    assert set(parse_seeds(seed_list(seeds))) == seeds


def test_consecutive_seeds_are_a_range() -> None:
    assert (seed_list([2, 0, 1]), seed_list([0, 2]), seed_list([7, 7])) == ("0-2", "0,2", "7")


def described(attack: str = "kkt", tuned_by: str = "user", **changed: Any) -> str:
    row = {"attack": attack, "variant": "", "tuned_by": tuned_by, "params_hash": "0123456789"}
    return summary(row, changed)


def test_what_somebody_set_is_written_as_it_was() -> None:
    assert described(restarts=12, dtype="float32", text="12") == 'restarts=12 dtype=float32 text="12"'
    assert described() == ""


def test_a_default_that_has_changed_is_written() -> None:
    assert described(tuned_by="default", restarts=12) == "restarts=12"


def test_of_an_unknown_attack_only_what_somebody_set_is_written() -> None:
    assert described("nobody's", tuned_by="default", a=1) == ""
    assert described("nobody's", a=1) == "a=1"


def test_long_settings_are_their_hash() -> None:
    assert described(text="x" * LONGEST) == "parameters 0123456789"
