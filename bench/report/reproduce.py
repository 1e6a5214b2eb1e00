"""What a row's parameters say: which of them somebody chose, and the command that runs it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from attacks.base import Attack
from bench import registry


def settings(attack: str, variant: str, params_json: str) -> dict[str, Any]:
    """Return the parameters of a row that are neither the attack's defaults nor its variant's.

    Args:
        attack: its name; all parameters of one that the registry does not know are returned.
        variant: the name of a parameter set of the attack, or "".
        params_json: the row's column; what is no JSON object has no parameters.
    """
    try:
        params = json.loads(params_json)
    except ValueError:
        return {}
    if not isinstance(params, dict):
        return {}
    kind = _attacks().get(attack)
    if kind is None or (variant and variant not in kind.variants):
        return params
    usual = kind.Params(**kind.variants.get(variant, {})).model_dump(mode="json")
    return {key: value for key, value in params.items() if key not in usual or usual[key] != value}


def assignments(changed: Mapping[str, Any]) -> str:
    """Return parameters as one reads them: `restarts=12 steps=300`."""
    return " ".join(f"{key}={_text(value)}" for key, value in changed.items())


def command(attack: str, variant: str, victim: str, seeds: Iterable[int], changed: Mapping[str, Any]) -> str:
    """Return the command that runs a row's runs again, quoted for a shell: names may come from anybody's CSV."""
    words = ["python", "-m", "bench", "run", "-a", attack, "-v", victim, "--seeds", seed_list(seeds)]
    if variant:
        words += ["--variant", variant]
    for key, value in changed.items():
        words += ["--set", f"{key}={_text(value)}"]
    return shlex.join(words)


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
        except ValueError:
            return value
    return json.dumps(value)


@cache
def _attacks() -> dict[str, type[Attack[Any]]]:
    return registry.attacks().items
