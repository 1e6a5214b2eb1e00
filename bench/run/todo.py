"""What a plan leaves to do, and why, before anything is done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from rich.console import Console

from bench.plan.run import Run, attack_sha, told_apart
from bench.run.scorer import lacking
from bench.run.session import Session
from bench.run.setup import Setup
from bench.run.steps import Again, Step, next_step
from bench.store.folders import Store
from bench.store.records import FAILED, RunRecord
from bench.terminal.progress import TerminalReporter
from bench.terminal.text import describe, few
from victims.cache import trained_card, training_sha
from victims.errors import UserError
from victims.informed.spec import AnySpec

if TYPE_CHECKING:
    from attacks.base import Attack


@dataclass(frozen=True)
class Todo:
    """A run of a plan and its next step.

    Attributes:
        run: the run.
        run_id: its id.
        stored: its stored record, None if there is none.
        step: what is to be done.
        lacking: what its scores lack, if it is to be scored again.
    """

    run: Run
    run_id: str
    stored: RunRecord | None
    step: Step
    lacking: str = ""

    @property
    def shown(self) -> bool:
        """Whether a row of it is in the tables."""
        return self.stored is not None and not self.stored.pending


def todo(plan: Sequence[Run], setup: Setup, session: Session) -> list[Todo]:
    """Return each run with its next step. Data are downloaded if the session allows it: they are part of a run's id."""
    store = Store(setup.results_dir)
    entries = []
    for run in plan:
        run_id = session.run_id(run)
        stored = store.find(run_id)
        step = next_step(stored, setup.again, lambda record, retry: not lacking(record, setup.twins, retry))
        short = lacking(stored, setup.twins, setup.again is Again.FAILED) if step is Step.SCORE and stored else ""
        entries.append(Todo(run, run_id, stored, step, short))
    return entries


def preview_plan(plan: Sequence[Run], setup: Setup) -> list[tuple[str, str, str]]:
    """Return the title of each run, its next step in `run_plan`, and the reason; nothing is downloaded."""
    with TerminalReporter(Console()) as reporter:
        session = Session(setup, reporter, downloads=False)
        entries = todo(told_apart(plan), setup, session)
        for line in changed_sources(entries, session):
            reporter.notice(line)
        if setup.only_cached:
            steps = [(Step.NOTHING, "") if entry.shown else ("nothing", "it is not stored") for entry in entries]
        else:
            steps = [(entry.step, why(entry, session)) for entry in entries]
        return [(entry.run.title, *step) for entry, step in zip(entries, steps, strict=True)]


def why(entry: Todo, session: Session) -> str:
    """Return in a few words why a run has this next step, or why its attack declines the victim."""
    stored, again = entry.stored, entry.step is Step.ATTACK
    if entry.step is Step.SCORE:
        return entry.lacking
    if stored is not None and stored.status in FAILED:
        return f"{stored.status}: {stored.reason}{'' if again else '; --retry-failed runs it again'}"
    if stored is not None:
        return "--force" if again else stored.reason
    try:
        reason = entry.run.declined()
        if reason is None:
            session.victim_key(entry.run.victim)
    except UserError as error:
        return str(error)
    except Exception as error:
        return describe(error)
    return "" if reason is None else f"skipped: {reason}"


def changed_sources(entries: Sequence[Todo], session: Session) -> list[str]:
    """Return lines on attacks and victims whose source has changed since what is stored of them was made.

    There is a line for each attack with stored runs that are not run again, and one for all victims whose recipes have
    the same version. A hash that was not recorded tells of no change.

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
    changed: dict[int, list[str]] = defaultdict(list)
    today = cache(training_sha)  # asked of victims that are trained: it reads every file of the training
    for name, spec in specs.items():
        source = _trained_by(spec, session)
        if source and source != today(spec.setting):
            changed[spec.training.version].append(name)
    for version, names in changed.items():
        trained = f"the source of the training changed since version {version} was made"
        used = "it is used as it is" if len(names) == 1 else "they are used as they are"
        yield f"{few(names)}: {trained}; {used}; a raised version trains again"


def _trained_by(spec: AnySpec, session: Session) -> str:
    """Return the hash of the source that trained a victim, empty if it is not trained or has none recorded."""
    try:
        return str(trained_card(spec, session.data_dir).get("training_sha", ""))
    except UserError:
        return ""
