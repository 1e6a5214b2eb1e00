"""What a row's parameters say: which of them somebody chose, and the command that runs it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from attacks.base import Attack
from bench.plan import registry

LONGEST = 44
"""Letters of parameters that a table has room for."""


def settings(attack: str, variant: str, params_json: str) -> dict[str, Any]:
    """Return the parameters of a row that are neither the attack's defaults nor its variant's.

    Args:
        attack: its name; all parameters of one that the registry does not know are returned.
        variant: the name of a parameter set of the attack, or "".
        params_json: the row's column; what is no JSON object has no parameters.
    """
    try:
        params = json.loads(params_json)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(params, dict):
        return {}
    usual = _usual(attack, variant)
    if usual is None:
        return params
    return {key: value for key, value in params.items() if key not in usual or usual[key] != value}


def summary(row: Mapping[Hashable, Any], changed: Mapping[str, Any]) -> str:
    """Return what to write behind a row's attack: `restarts=12 steps=300`, or the parameters' hash if that is too long.

    Args:
        row: of a table.
        changed: its `settings`. Of an attack that the registry does not know they are all parameters there are, of
            which nothing is written unless somebody set one.
    """
    if not changed or (row["tuned_by"] != "user" and _usual(row["attack"], row["variant"]) is None):
        return ""
    text = " ".join(f"{key}={_text(value)}" for key, value in changed.items())
    return text if len(text) <= LONGEST else f"parameters {row['params_hash']}"


def command(row: Mapping[Hashable, Any], seeds: Iterable[int], changed: Mapping[str, Any]) -> str:
    """Return what runs a row's runs again, quoted for a shell: names may come from anybody's CSV.

    Args:
        row: of a table.
        seeds: of its runs.
        changed: its `settings`.

    Returns:
        One command, or two joined by `&&` where the row was scored under another protocol than the attack's own.
    """
    cell = ["-a", row["attack"], "-v", row["victim"]]
    run = ["python", "-m", "bench", "run", *cell, "--seeds", seed_list(seeds)]
    if row["variant"]:
        run += ["--variant", row["variant"]]
    if row["budget"]:
        run += ["--budget", row["budget"]]
    for key, value in changed.items():
        run += ["--set", f"{key}={_text(value)}"]
    kind = _attacks().get(row["attack"])
    if kind is None or kind.protocol == row["protocol"]:
        return shlex.join(run)
    score = ["python", "-m", "bench", "score", *cell, "--protocol", row["protocol"]]
    return f"{shlex.join(run)} && {shlex.join(score)}"


def seed_list(seeds: Iterable[int]) -> str:
    """Return seeds as `--seeds` takes them: `0-4` if they follow one another, else `0,2,5`."""
    numbers = sorted(set(seeds))
    if len(numbers) > 1 and all(after == before + 1 for before, after in pairwise(numbers)):
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(map(str, numbers))


def _text(value: Any) -> str:
    """Return a value as `--set` reads it: JSON, or a text that is none."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except (ValueError, RecursionError):
            return value
    return json.dumps(value)


def _usual(attack: str, variant: str) -> dict[str, Any] | None:
    """Return the parameters of an attack's variant, None if the registry does not know it."""
    kind = _attacks().get(attack)
    if kind is None or (variant and variant not in kind.variants):
        return None
    return kind.Params(**kind.variants.get(variant, {})).model_dump(mode="json")


@cache
def _attacks() -> dict[str, type[Attack[Any]]]:
    return registry.attacks().items
