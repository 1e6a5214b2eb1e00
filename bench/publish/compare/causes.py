"""Why a score may have changed: all that differs between the runs of a cell in two tables."""

from __future__ import annotations

import json
from collections.abc import Mapping

from bench.publish.ranking import Row
from bench.publish.runs_table import VERSIONS
from bench.terminal.text import one_line
from victims.errors import UserError

HASHED_CAUSES = {"attack source": "attack_sha", "victim's definition": "victim_key", "victim weights": "weights"}
"""Causes of a changed score, each with its column of a leaderboard: hashes, which are not shown to a reader."""
CAUSES = {
    **{column.replace("_", " "): (column,) for column in VERSIONS.values()},
    "metric suite": ("metric_suite",),
    "torch": ("torch",),
    "bench version": ("bench_version", "git_commit"),
    "hardware": ("device", "cpu", "gpu"),
    "seeds": ("seed",),
    "budget": ("budget",),
}
"""The same where the values are shown."""
ALWAYS_KNOWN = ("budget",)
"""Causes of which an empty cell is a value, such as no budget."""
NO_CAUSE = "none of the recorded causes"


def cause(before: Row, after: Row) -> str:
    """Return the differences between the runs of two cells that could change a score."""
    causes, unknown = [], []
    for label, column in HASHED_CAUSES.items():
        if before[column] and after[column]:
            causes += [label] if before[column] != after[column] else []
        elif before[column] or after[column]:
            unknown.append(label)
    parameters = _changed_parameters(_parameters(before), _parameters(after))
    causes += [f"parameters {parameters}"] if parameters else []
    for label, columns in CAUSES.items():
        old, new = (" ".join(filter(None, (str(row[name]) for name in columns))) for row in (before, after))
        if old == new:
            continue
        if (old and new) or label in ALWAYS_KNOWN:
            causes.append(f"{label} {old.replace(';', ',')} -> {new.replace(';', ',')}")
        else:
            unknown.append(label)
    if unknown:
        causes.append(f"one table does not tell: {', '.join(unknown)}")
    return "; ".join(causes) or NO_CAUSE


def _parameters(row: Row) -> dict[str, object]:
    """Return the parameters of a cell.

    Raises:
        UserError: they are no JSON object.
    """
    text = row["params_json"]
    try:
        return dict(json.loads(text))
    except (TypeError, ValueError, RecursionError):
        named = f"{row['attack']} on {row['victim']}"
        raise UserError(f"params_json of {named} is no JSON object: {one_line(text, 80)}") from None


def _changed_parameters(old: Mapping[str, object], new: Mapping[str, object]) -> str:
    names = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return ", ".join(f"{name} {old.get(name)} -> {new.get(name)}" for name in names)
