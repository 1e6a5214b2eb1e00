"""Whether the source of an attack or of a training changed under a version of which something is stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bench.plan.run import attack_sha
from bench.run.session import Session
from bench.run.todo import Step, Todo
from victims.cache import trained_card, training_sha
from victims.errors import UserError
from victims.informed.spec import AnySpec

if TYPE_CHECKING:
    from attacks.base import Attack

SHOWN = 3
"""Names of victims in a line; the others are counted."""


def changed_sources(entries: Sequence[Todo], session: Session) -> list[str]:
    """Return a line for each attack and one for the victims of which something is stored that another source made.

    A stored run that is run again is none of these; a hash that was not recorded tells of no change.

    Args:
        entries: a plan, with what is stored of it.
        session: knows where data and victims are.
    """
    return [*_changed_attacks(entries), *_changed_trainings(entries, session)]


def _changed_attacks(entries: Sequence[Todo]) -> Iterator[str]:
    made_by: dict[type[Attack[Any]], set[str]] = defaultdict(set)
    for entry in entries:
        if entry.stored is not None and entry.step is not Step.ATTACK:
            made_by[entry.run.attack].add(entry.stored.attack_sha)
    for attack, hashes in made_by.items():
        today = attack_sha(attack)
        if today and hashes - {"", today}:
            measured = f"its source changed since version {attack.version} was measured"
            yield f"{attack.name}: {measured}; --force runs it again, a raised version makes new rows"


def _changed_trainings(entries: Sequence[Todo], session: Session) -> Iterator[str]:
    specs = {entry.run.victim.name: entry.run.victim for entry in entries}
    today = {setting: training_sha(setting) for setting in {spec.setting for spec in specs.values()}}
    changed: dict[int, list[str]] = defaultdict(list)
    for name, spec in specs.items():
        if _trained_by(spec, session) not in ("", today[spec.setting]):
            changed[spec.training.version].append(name)
    for version, names in changed.items():
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        trained = f"the source of the training changed since version {version} was made"
        yield f"{', '.join(names[:SHOWN])}{more}: {trained}; a raised version trains again"


def _trained_by(spec: AnySpec, session: Session) -> str:
    """Return the hash of the source that trained a victim, empty if it is not trained or has none recorded."""
    try:
        return str(trained_card(spec, session.data_dir).get("training_sha", ""))
    except UserError:
        return ""
