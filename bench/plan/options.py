"""From the words of the command line to a plan: seeds, parameters, devices. Every mistake is one line."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from pydantic import ValidationError

from attacks.base import Attack, AttackParams
from attacks.context import Budget
from bench.terminal.text import nearest, short
from victims.defences.spec import JOINT, parse
from victims.errors import UserError

if TYPE_CHECKING:
    import torch


ControlSet = Literal["all", "quick"]
"""Which null controls a row gets."""


LARGEST_SEED = 2**32
MOST_SEEDS = 10_000
BUDGET = re.compile(r"([0-9]{1,15}|[0-9]{0,15}\.[0-9]{1,15})(s|m|h|steps)")
SECONDS = {"s": 1, "m": 60, "h": 3600}
LONGEST_BUDGET = 10**9
"""Seconds (thirty years) or steps; more is no limit but a mistake."""
MEMORY = re.compile(r"([0-9]{1,15}|[0-9]{0,15}\.[0-9]{1,15})([mgt])b?", re.IGNORECASE)
MEBIBYTES = {"m": 1, "g": 2**10, "t": 2**20}
MOST_MEMORY = 2**60
DEVICE = re.compile(r"cuda(?::([0-9]{1,4}))?")

NO_LIST = ("tuple_type", "missing", "too_long", "too_short", "float_type", "float_parsing", "int_type", "int_parsing")
"""What pydantic calls a value that is no list of numbers as long as the tuple that it is for."""


def parse_seeds(text: str, option: str = "--seeds") -> list[int]:
    """Return the seeds, each once, of `3`, `0,2,5`, `0-4` or `0-4,7`, which an option was given.

    Raises:
        UserError: it is none of these, a seed is 2^32 or more, or they are more than `MOST_SEEDS`.
    """
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            start, stop = int(first), int(last if dash else first) + 1
            if stop > LARGEST_SEED or not 0 < stop - start <= MOST_SEEDS:
                raise ValueError
            seeds += range(start, stop)
            if len(seeds) > MOST_SEEDS:
                raise ValueError
    except ValueError:
        raise UserError(f"{option} {short(text)} is no list of seeds; write 3, 0,2,5 or 0-4") from None
    return list(dict.fromkeys(seeds))


def parse_budget(text: str) -> Budget:
    """Return the budget that `90s`, `10m`, `1.5h` or `500steps` names; without a limit for an empty text.

    Raises:
        UserError: it is none of these, 0, or more than `LONGEST_BUDGET`.
    """
    if not text:
        return Budget()
    found = BUDGET.fullmatch(text.replace(" ", ""))
    if found is not None and found[2] in SECONDS and 0 < float(found[1]) * SECONDS[found[2]] <= LONGEST_BUDGET:
        return Budget(seconds=float(found[1]) * SECONDS[found[2]])
    if found is not None and found[2] == "steps" and found[1].isdigit() and 0 < int(found[1]) <= LONGEST_BUDGET:
        return Budget(steps=int(found[1]))
    most = f"{LONGEST_BUDGET:g} seconds or steps"
    raise UserError(f"--budget {short(text)} is no budget; write 90s, 10m, 1.5h or 500steps, at most {most}")


def parse_memory(text: str) -> int:
    """Return the bytes of `500m`, `8g` or `1.5t`.

    Raises:
        UserError: it is none of these.
    """
    found = MEMORY.fullmatch(text)
    if found is None or not 0 < (size := float(found[1]) * MEBIBYTES[found[2].lower()] * 2**20) <= MOST_MEMORY:
        raise UserError(f"--memory {short(text)} is no amount of memory; write 500m or 8g")
    return int(size)


def matches(name: str, patterns: list[str] | None) -> bool:
    """Say whether a name matches one of the patterns, names or globs; without patterns every name does.

    A defence may be written as on the command line: `X+noise=1e-3` means `X+noise=0.001`.

    Raises:
        UserError: a pattern ends with something that is no defence.
    """
    return not patterns or any(fnmatch.fnmatchcase(name, _as_named(pattern)) for pattern in patterns)


def _as_named(pattern: str) -> str:
    """Return a pattern with its defences as names have them; the retraining, if any, stands behind the last one."""
    plain, *defences = pattern.split(JOINT)
    if not defences:
        return plain
    defences[-1], at, retraining = defences[-1].partition("@")
    return JOINT.join([plain, *(one if "*" in one else parse(one).text for one in defences)]) + at + retraining


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """Return the key=value pairs of `--set`; a value is JSON where it parses as such, else text.

    Raises:
        UserError: a pair has no `=`, a key is given twice, or a value is nested too deeply.
    """
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not equals:
            raise UserError(f"--set {short(setting)} has no value; write --set key=value, e.g. --set steps=1000")
        key = key.strip()
        if key in values:
            raise UserError(f"--set {key} is given twice; give one value, and run the verb once for each other")
        try:
            values[key] = json.loads(text)
        except ValueError:
            values[key] = text
        except RecursionError:
            raise UserError(f"--set {short(setting)} is nested too deeply") from None
    return values


def value_text(value: Any) -> str:
    """Return a value as `--set` reads it: JSON, or a text that is none."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except (ValueError, RecursionError):
            return value
    return json.dumps(value)


def attack_params(
    attack: type[Attack[Any]], variant: str, settings: dict[str, Any], given: str = "--set"
) -> AttackParams:
    """Return an attack's parameters: its defaults, then the variant's, then the user's settings.

    Args:
        attack: the attack.
        variant: a named parameter set, empty for none.
        settings: the user's, by name.
        given: where the user gave them, in the words of an error.

    Raises:
        UserError: there is no such variant, key or value.
    """
    if variant and variant not in attack.variants:
        known = ", ".join(attack.variants) or "none"
        raise UserError(f"{attack.name} has no variant {variant!r}; there are: {known}")
    fields = attack.Params.model_fields
    for key in settings:
        if key not in fields:
            raise UserError(f"{given} {key}: {attack.name} has no such parameter; {nearest(key, fields)}")
    for key, value in settings.items():
        if isinstance(value, bool) and "bool" not in str(fields[key].annotation):
            raise UserError(f"{given} {key}={str(value).lower()}: {key} takes no true or false")
    try:
        return attack.Params(**(attack.variants.get(variant, {}) | settings))
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0]) if first["loc"] else "params"
        where = given if key in settings or not variant else f"variant {variant} of {attack.name}:"
        value, form = first["input"], ""
        if key in settings and (length := _items(fields[key].annotation)) and first["type"] in NO_LIST:
            example = json.dumps(fields[key].default or [1] * (length if length > 0 else 2), separators=(",", ":"))
            value, form = settings[key], f"; write a list, such as {key}={example}"
        raise UserError(f"{where} {key}={short(value)}: {first['msg']}{form}") from None


def _items(annotation: Any) -> int:
    """Return how many items the tuple of an annotation has, -1 for any number of them, 0 if there is no tuple."""
    items = get_args(annotation)
    if get_origin(annotation) is tuple:
        return -1 if Ellipsis in items else len(items)
    return next(filter(None, map(_items, items)), 0)


def choose_device(name: str, elsewhere: bool = False) -> torch.device:
    """Return the torch device that `auto`, `cpu` or `cuda` (`cuda:1`) names.

    Args:
        name: what the user says.
        elsewhere: whether the runs are made on other machines, whose GPUs this one does not know.

    Raises:
        UserError: it is none of these, or there is no such GPU.
    """
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu":
        return torch.device("cpu")
    found = DEVICE.fullmatch(name)
    if found is None:
        raise UserError(f"--device {short(name)} is no device; write auto, cpu or cuda")
    if elsewhere:
        return torch.device("cuda")  # a cluster shows a run the GPUs that are its own
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(found[1] or 0) >= count:
        raise UserError(f"--device {name}: this machine has {count or 'no'} CUDA device; use --device cpu or auto")
    return torch.device(name)


def choose_data_dir(given: Path | None) -> Path | None:
    """Return the data folder: `--data-dir`, BENCH_DATA_DIR, or None for the default.

    Raises:
        UserError: the folder given on the command line does not exist, or one given anywhere is a file.
    """
    named = os.environ.get("BENCH_DATA_DIR")
    folder = given if given is not None or not named else Path(named)
    if folder is not None and folder.is_file():
        option = "--data-dir" if given is not None else "BENCH_DATA_DIR"
        raise UserError(f"the data folder {folder} is a file; give {option} the folder that holds it, {folder.parent}")
    if given is not None and not given.is_dir():
        raise UserError(f"the data folder {given} does not exist; give --data-dir a folder that holds NAME.npz files")
    return folder
