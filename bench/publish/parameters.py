"""The parameters of a row as people read them: those that differ from the attack's defaults, and all as columns."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import pandas as pd
from pydantic_core import to_jsonable_python

from attacks.base import Attack
from bench.plan import registry
from bench.plan.options import value_text
from bench.plan.registry import Registry, Victims
from victims.errors import UserError
from victims.informed.spec import AnySpec

Attacks = Registry[type[Attack[Any]]]
_KNOWN: ContextVar[tuple[Attacks, Victims] | None] = ContextVar("known", default=None)
LONGEST = 44
"""Letters of parameters that a table has room for."""


def settings(attack: str, variant: str, params_json: str) -> dict[str, Any]:
    """Return the parameters of a row that are neither the attack's defaults nor its variant's.

    A parameter that the variant sets and the row lacks has the attack's default, for which a description may leave it
    out. One that the attack no longer has is left out if its value is null.

    Args:
        attack: its name; all parameters of one that the registry does not know are returned.
        variant: the name of a parameter set of the attack, or "".
        params_json: the row's column; what is no JSON object has no parameters.
    """
    params = _parsed(params_json)
    usual = _usual(attack, variant)
    if usual is None or not params:
        return params
    kind = known_attacks()[attack]
    lacking = {
        key: kind.Params.model_fields[key].default for key in kind.variants.get(variant, {}) if key not in params
    }
    return {key: value for key, value in (params | to_jsonable_python(lacking)).items() if value != usual.get(key)}


def readable(attack: str, variant: str, params_json: str) -> str:
    """Return the parameters of a row that differ from its attack's defaults or its variant's, `restarts=12 steps=300`.

    Of an attack that the registry does not know they are all parameters there are.
    """
    return " ".join(f"{key}={value_text(value)}" for key, value in settings(attack, variant, params_json).items())


def summary(row: Mapping[Hashable, Any], changed: Mapping[str, Any]) -> str:
    """Return what to write behind a row's attack: `restarts=12 steps=300`, or the parameters' hash if that is too long.

    Args:
        row: of a table.
        changed: its `settings`. Of an attack that the registry does not know they are all parameters there are, of
            which nothing is written unless somebody set one.
    """
    if not changed or (row["tuned_by"] != "user" and _usual(row["attack"], row["variant"]) is None):
        return ""
    text = " ".join(f"{key}={value_text(value)}" for key, value in changed.items())
    return text if len(text) <= LONGEST else f"parameters {row['params_hash']}"


def columns(params_json: Iterable[str], index: pd.Index) -> pd.DataFrame:
    """Return a column `param.NAME` for each parameter of some rows, empty where a row's attack has no such parameter.

    Args:
        params_json: the rows' column.
        index: of the rows.
    """
    rows = [{f"param.{name}": value_text(value) for name, value in _parsed(row).items()} for row in params_json]
    table = pd.DataFrame(rows, index=index, dtype=object).fillna("")
    return table[sorted(table.columns)]


def _parsed(params_json: str) -> dict[str, Any]:
    try:
        params = json.loads(params_json)
    except (ValueError, RecursionError):
        return {}
    return params if isinstance(params, dict) else {}


def _usual(attack: str, variant: str) -> dict[str, Any] | None:
    """Return the parameters of an attack's variant, None if the registry does not know it or it cannot be made."""
    kind = known_attacks().get(attack)
    if kind is None or (variant and variant not in kind.variants):
        return None
    try:
        return kind.Params(**kind.variants.get(variant, {})).model_dump(mode="json")
    except Exception:  # a plug-in's variant may set what its parameters do not take, and must cost only itself
        return None


@contextmanager
def knowing(attacks: Attacks, victims: Victims) -> Iterator[None]:
    """Let what is read of tables in the block know these attacks and victims, which may be plug-ins."""
    token = _KNOWN.set((attacks, victims))
    try:
        yield
    finally:
        _KNOWN.reset(token)


def known_attacks() -> Mapping[str, type[Attack[Any]]]:
    """Return the attacks that the names in a table may mean: those of this installation, if no others are given."""
    told = _KNOWN.get()
    return (_own_attacks() if told is None else told[0]).items


def known_victims() -> Victims:
    """Return the victims that the names in a table may mean, likewise."""
    told = _KNOWN.get()
    return _own_victims() if told is None else told[1]


def known_victim(name: str) -> AnySpec | None:
    """Return the known victim that has that name, its defences and its retraining; None without one."""
    try:
        return known_victims().find(name)
    except UserError:  # a defence that it cannot have today
        return None


@cache
def _own_attacks() -> Attacks:
    return registry.attacks()


@cache
def _own_victims() -> Victims:
    return registry.victims()
