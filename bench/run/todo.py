"""What a plan leaves to do, and why, before anything is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bench.plan.run import Run
from bench.run.null_controls import NullControls
from bench.run.scorer import Scorer
from bench.run.session import Session
from bench.run.setup import Again, Setup
from bench.store.folders import Store
from bench.store.records import ENVIRONMENT, FAILED, RunRecord, Status
from bench.terminal.text import describe
from victims.errors import UserError


class Step(StrEnum):
    """The next step of a run."""

    NOTHING = "stored"
    SCORE = "score again"
    ATTACK = "run"


@dataclass(frozen=True)
class Todo:
    """A run of a plan and its next step.

    Attributes:
        run: the run.
        run_id: its id.
        stored: what is stored of it.
        step: what is to be done.
    """

    run: Run
    run_id: str
    stored: RunRecord | None
    step: Step

    @property
    def shown(self) -> bool:
        """Whether a row of it is in the tables."""
        return self.stored is not None and not self.stored.pending


def next_step(stored: RunRecord | None, again: Again, complete: Callable[[RunRecord, bool], bool]) -> Step:
    """Return the next step of a run.

    Args:
        stored: what is stored of it.
        again: what is run again of what is stored.
        complete: says of a run whether its scores need nothing more, what failed being tried again or not.
    """
    if stored is None or again is Again.ALWAYS:
        return Step.ATTACK
    if stored.status in FAILED:
        retried = again is Again.FAILED or stored.status is Status.OOM or ENVIRONMENT in stored.flags.split(";")
        return Step.ATTACK if retried else Step.NOTHING
    return Step.NOTHING if complete(stored, again is Again.FAILED) else Step.SCORE


def todo(plan: Sequence[Run], setup: Setup, session: Session) -> list[Todo]:
    """Return each run with its next step. Data are downloaded if the session allows it: they are part of a run's id."""
    store = Store(setup.results_dir)
    complete = Scorer(store, session, NullControls(session, None, setup.twins)).complete
    entries = []
    for run in plan:
        run_id = session.run_id(run)
        stored = store.find(run_id)
        entries.append(Todo(run, run_id, stored, next_step(stored, setup.again, complete)))
    return entries


def why(entry: Todo, session: Session) -> str:
    """Return in a few words why a run has this next step, or why its attack declines the victim."""
    stored, again = entry.stored, entry.step is Step.ATTACK
    if entry.step is Step.SCORE:
        return "its scores are not complete, or of another metric suite or protocol version"
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
