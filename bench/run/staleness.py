"""Whether the source of an attack or of a training changed under a version of which something is stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from bench.plan.run import attack_sha
from bench.run.session import Session
from bench.run.steps import Step
from bench.run.todo import Todo
from victims.cache import trained_card, training_sha
from victims.errors import UserError
from victims.informed.spec import AnySpec

SHOWN = 3
"""Names of victims in a line; the others are counted."""


def changed_sources(entries: Sequence[Todo], session: Session) -> list[str]:
    """Return one line for each attack, and one for the victims, whose stored results were made by another source.

    What is run again counts for its victim alone. A source that was not recorded, or cannot be read, is no other one.

    Args:
        entries: a plan, with what is stored of it.
        session: knows where data and victims are.
    """
    kept = [entry for entry in entries if entry.stored is not None and entry.step is not Step.ATTACK]
    recorded: dict[Any, set[str]] = defaultdict(set)
    for entry in kept:
        recorded[entry.run.attack].add(entry.stored.attack_sha if entry.stored else "")
    lines = [
        f"{attack.name}: its source changed since version {attack.version} was measured; "
        "--force runs it again, a raised version makes new rows"
        for attack, known in recorded.items()
        if _differs(known, attack_sha(attack))
    ]
    victims = {entry.run.victim.name: entry.run.victim for entry in entries}
    by_version: dict[int, list[str]] = defaultdict(list)
    for name, spec in victims.items():
        if _differs({_trained_by(spec, session)}, training_sha(spec.setting)):
            by_version[spec.training.version].append(name)
    for version, names in by_version.items():
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        told = f"{', '.join(names[:SHOWN])}{more}: the source of the training changed since version {version} was made"
        lines.append(f"{told}; a raised version trains again")
    return lines


def _trained_by(spec: AnySpec, session: Session) -> str:
    """Return the hash of the source that trained a victim, empty if it is not trained or has none recorded."""
    try:
        return str(trained_card(spec, session.data_dir).get("training_sha", ""))
    except UserError:
        return ""


def _differs(recorded: set[str], today: str) -> bool:
    return bool(today and recorded - {"", today})
