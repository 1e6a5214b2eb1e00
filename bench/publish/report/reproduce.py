"""The command that runs a row again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from bench.plan.options import value_text
from bench.plan.run import protocol_of
from bench.publish.parameters import known_attacks, known_victim
from bench.terminal.text import command


def remaking(
    row: Mapping[Hashable, Any], seeds: Iterable[int], changed: Mapping[str, Any], retrainings: Iterable[int] = (0,)
) -> str:
    """Return the command that makes a row's runs again, quoted for a shell: names may come from anybody's CSV.

    Args:
        row: of a table.
        seeds: of its runs.
        changed: its `settings`.
        retrainings: of its victim.

    Returns:
        One command, or two joined by `&&` where the row was scored under another protocol than the run's.
    """
    cell = ["-a", row["attack"], "-v", row["victim"]]
    run = ["run", *cell, "--seeds", seed_list(seeds)]
    if set(retrainings := list(retrainings)) != {0}:
        run += ["--victim-seeds", seed_list(retrainings)]
    if row["variant"]:
        run += ["--variant", row["variant"]]
    if row["budget"]:
        run += ["--budget", row["budget"]]
    for key, value in changed.items():
        run += ["--set", f"{key}={value_text(value)}"]
    kind = known_attacks().get(row["attack"])
    if kind is None:
        return command(*run)
    victim = known_victim(row["victim"])
    if row["protocol"] == (kind.protocol if victim is None else protocol_of(kind, victim)):
        return command(*run)
    return f"{command(*run)} && {command('score', *cell, '--protocol', row['protocol'])}"


def seed_list(seeds: Iterable[int]) -> str:
    """Return seeds as `--seeds` takes them: `0-4` if they follow one another, else `0,2,5`."""
    numbers = sorted(set(seeds))
    if len(numbers) > 1 and all(after == before + 1 for before, after in pairwise(numbers)):
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(map(str, numbers))
