"""A run in the form in which it is sent to a process or a machine, and its execution there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from attacks.context import Budget
from bench.plan.run import Run
from bench.run.failures import Failure
from bench.run.runner import Outcome, Runner
from bench.run.setup import Setup
from bench.run.steps import Again
from bench.store.records import RunRecord
from bench.terminal.progress import Reporter

if TYPE_CHECKING:
    from attacks.base import Attack
    from bench.plan.registry import Registry, Victims
    from bench.run.isolation.host import IsolatedAttacks


@dataclass(frozen=True)
class Task:
    """One run as names, texts and numbers, which can be pickled; the registry finds what the names mean.

    Attributes:
        run_id: its id, as far as it is known before it is executed; of a run that is only scored, the stored one's.
        attack: name of the attack; its parameters are `params_json`.
        variant: name of the variant that they come from.
        params_json: all parameters.
        tuned_by: who chose them.
        victim: name of the victim as it is described, and `victim_seed`, which retraining of it is meant.
        seed: of the attack.
        budget: what the attack may spend.
        setup: what all tasks share.
        apart: the parameters that tell it from another run of its title.
        scored_under: if not None, the stored run is only scored, under this protocol, empty for its own.
        row: if not None, the run's row of runs.csv, whose run folder is elsewhere: only twins are attacked, for it.
        failure: the failure to be recorded of a run whose process has died; None if the run is to be executed.
    """

    run_id: str
    attack: str
    variant: str
    params_json: str
    tuned_by: str
    victim: str
    victim_seed: int
    seed: int
    budget: Budget
    setup: Setup
    apart: str = ""
    scored_under: str | None = None
    row: RunRecord | None = None
    failure: Failure | None = None

    @classmethod
    def of(cls, run: Run, run_id: str, setup: Setup) -> Task:
        """Return the task to execute a run."""
        params = json.dumps(run.params.model_dump(mode="json"))
        name, victim, retraining = run.attack.name, run.victim.described.name, run.victim.retraining
        told = run.seed, run.budget, setup, run.apart
        return cls(run_id, name, run.variant, params, run.tuned_by, victim, retraining, *told)

    def run(self, attacks: Registry[type[Attack[Any]]], victims: Victims) -> Run:
        """Return the run.

        Raises:
            UserError: attack or victim is not known where the task arrived.
        """
        attack, victim = attacks.match([self.attack])[0], victims.match([self.victim])[0].retrained(self.victim_seed)
        params = attack.Params.model_validate(json.loads(self.params_json))
        return Run(attack, params, self.variant, self.tuned_by, victim, self.seed, self.budget, self.apart)


class Executor(Protocol):
    """Executes tasks. The death of a process costs its own run and no other."""

    def execute(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Yield how each task ended, in the order in which they end."""


def work(
    task: Task,
    reporter: Reporter,
    output: int | None = None,
    debugger: Callable[[BaseException], None] | None = None,
    host: IsolatedAttacks | None = None,
) -> Outcome:
    """Do a task: find its attack and victim, train or load the victim, attack, store, score.

    It needs nothing of the process that it is called in, and may be called in any.

    Args:
        task: the task; of one with a `failure` that is recorded, and nothing is executed.
        reporter: told how it goes.
        output: file descriptor of what this process prints, for the run's log; None if nobody catches it.
        debugger: called with an exception of the attack before it is recorded.
        host: has attacks made in processes of their own; None for this process, where the training images are.

    Returns:
        How it ended. Whatever the attack, its victim or their scoring raise is an outcome.

    Raises:
        UserError: attack or victim is not known here, or the results folder cannot be written.
    """
    from bench.plan import registry
    from bench.run.nulls.controls import NullControls
    from bench.run.scorer import Scorer
    from bench.run.session import Session
    from bench.store.folders import Store

    setup = task.setup
    os.environ.update(setup.environment)
    attacks, victims = registry.attacks(setup.plugin_dir), registry.victims(setup.plugin_dir)
    store = Store(setup.results_dir)
    session = Session(setup, reporter, host=host)
    anew = setup.again is Again.ALWAYS
    controls = NullControls(session, registry.random_control(attacks), setup.twins, anew)
    scorer = Scorer(store, session, controls)
    runner = Runner(store, session, scorer, setup.again, output, debugger)
    run = task.run(attacks, victims)
    if task.row is not None:
        if task.failure is not None:
            return Outcome(task.row, stored=False, trouble=task.failure.reason)
        return runner.completed(run, task.row)
    if task.failure is not None:
        return runner.lost(run, task.run_id, task.failure, task.scored_under or "")
    return runner.run(run) if task.scored_under is None else runner.score(run, task.run_id, task.scored_under)
