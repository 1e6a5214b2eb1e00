"""What is to be done for each run of a plan, and why, before anything is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from bench.controls import NullControls
from bench.executors.task import Site
from bench.plan import Run
from bench.records import FAILED, RunRecord
from bench.runner import Again, Step, next_step
from bench.scorer import Scorer
from bench.store import Store
from bench.ui import Reporter
from bench.workshop import Workshop
from victims.errors import UserError


@dataclass(frozen=True)
class Entry:
    """A run of a plan.

    Attributes:
        run: the run.
        run_id: its id.
        stored: what is stored of it.
        step: what is to be done.
        why: in a few words.
    """

    run: Run
    run_id: str
    stored: RunRecord | None
    step: Step
    why: str

    @property
    def shown(self) -> bool:
        """Whether a row of it is in the tables."""
        return self.stored is not None and not self.stored.pending


def agenda(plan: Sequence[Run], site: Site, reporter: Reporter) -> list[Entry]:
    """Return what is to be done; data are downloaded where they tell one run from another."""
    store, workshop = Store(site.results_dir), Workshop(site.data_dir, torch.device(site.device), reporter)
    complete = Scorer(store, workshop, NullControls(workshop, None, site.twins)).complete
    entries = []
    for run in plan:
        run_id = workshop.run_id(run)
        stored = store.find(run_id)
        step = next_step(stored, site.again, complete)
        entries.append(Entry(run, run_id, stored, step, _why(run, stored, step, site.again, workshop)))
    return entries


def _why(run: Run, stored: RunRecord | None, step: Step, again: Again, workshop: Workshop) -> str:
    if step is Step.SCORE:
        return "its scores are not complete, or of another metric suite"
    if stored is not None and stored.status in FAILED:
        return f"{stored.status}: {stored.reason}{'' if step is Step.ATTACK else '; --retry-failed runs it again'}"
    if stored is not None:
        forced = "--force" if again is Again.ALWAYS else ""
        return forced if step is Step.ATTACK else stored.reason
    try:
        workshop.victim_key(run.victim)
        reason = run.attack(run.params).supports(run.victim)
    except UserError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if reason is None else f"skipped: {reason}"
