"""The next step of a run, decided by what is stored of it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from bench.store.records import ENVIRONMENT, FAILED, RunRecord, Status


class Again(StrEnum):
    """Which stored runs are run again.

    A failure is stored like any run, since it would fail again. With another version of its attack, other parameters,
    another victim or another budget it is another run. Memory and missing data are not part of a run's identity, so
    what failed for want of them is tried again at every `run`.
    """

    NEVER = "never"
    FAILED = "failed"
    ALWAYS = "always"


class Step(StrEnum):
    """The next step of a run."""

    NOTHING = "stored"
    SCORE = "score again"
    ATTACK = "run"


def passing(failed: RunRecord) -> bool:
    """Return whether a failure may be gone at the next `run`, which tries again."""
    return failed.status is Status.OOM or ENVIRONMENT in failed.flags.split(";")


def next_step(stored: RunRecord | None, again: Again, complete: Callable[[RunRecord, bool], bool]) -> Step:
    """Return the next step of a run.

    Args:
        stored: its stored record, None if there is none.
        again: which stored runs are run again.
        complete: says whether a run's scores need nothing more; its second argument is whether metrics and controls
            that raised an exception are tried again.
    """
    if stored is None or again is Again.ALWAYS:
        return Step.ATTACK
    if stored.status in FAILED:
        return Step.ATTACK if again is Again.FAILED or passing(stored) else Step.NOTHING
    return Step.NOTHING if complete(stored, again is Again.FAILED) else Step.SCORE
