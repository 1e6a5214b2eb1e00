"""One run as it travels to where it is executed, and the work that is to be done there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from attacks.context import Budget
from bench.plan import Run
from bench.runner import Failure, Outcome, Runner
from bench.steps import Again
from bench.ui import Reporter

if TYPE_CHECKING:
    from attacks.base import Attack
    from bench.registry import Registry
    from bench.workshop import Host
    from victims.informed.spec import AnySpec


@dataclass(frozen=True)
class Site:
    """What the tasks of a plan share: where they read and write, and how they are done.

    Attributes:
        results_dir: the results folder.
        data_dir: the data folder, None for the default.
        plugin_dir: folder of plug-ins.
        device: as torch names it, such as cpu or cuda:0.
        twins: whether null controls attack twins.
        again: what is run again of what is stored.
        environment: variables of the suite, the cache's folder among them.
    """

    results_dir: Path
    data_dir: Path | None
    plugin_dir: Path | None
    device: str
    twins: bool
    again: Again = Again.NEVER
    environment: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def variables() -> tuple[tuple[str, str], ...]:
        """Return the variables of this process's environment that the suite reads."""
        return tuple((name, value) for name, value in os.environ.items() if name.startswith("BENCH_"))


@dataclass(frozen=True)
class Task:
    """One run: names, texts and numbers alone, so that it can be pickled; the registry finds what they mean.

    Attributes:
        run_id: its id, as far as it is known before it is executed; of a run that is only scored, the stored one's.
        attack: name of the attack; its parameters are `params_json`.
        variant: name of the variant that they come from.
        params_json: all parameters.
        tuned_by: who chose them.
        victim: name of the victim.
        seed: of the attack.
        budget: what the attack may spend.
        site: what all tasks share.
        scored_under: if not None, the stored run is only scored, under this protocol, empty for its own.
        failure: how the process ended that was at it, to be recorded; None if the run is to be executed.
    """

    run_id: str
    attack: str
    variant: str
    params_json: str
    tuned_by: str
    victim: str
    seed: int
    budget: Budget
    site: Site
    scored_under: str | None = None
    failure: Failure | None = None

    @classmethod
    def of(cls, run: Run, run_id: str, site: Site) -> Task:
        """Return the task to execute a run."""
        params = json.dumps(run.params.model_dump(mode="json"))
        name, victim = run.attack.name, run.victim.name
        return cls(run_id, name, run.variant, params, run.tuned_by, victim, run.seed, run.budget, site)

    def run(self, attacks: Registry[type[Attack[Any]]], victims: Registry[AnySpec]) -> Run:
        """Return the run.

        Raises:
            UserError: attack or victim is not known where the task arrived.
        """
        attack, victim = attacks.match([self.attack])[0], victims.match([self.victim])[0]
        params = attack.Params.model_validate(json.loads(self.params_json))
        return Run(attack, params, self.variant, self.tuned_by, victim, self.seed, self.budget)


class Executor(Protocol):
    """Executes tasks; what ends a process costs the run that it was at, and no other."""

    def execute(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Yield how each task ended, in the order in which they end."""


def work(
    task: Task,
    reporter: Reporter,
    output: int | None = None,
    debugger: Callable[[BaseException], None] | None = None,
    host: Host | None = None,
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
    import torch

    from bench import registry
    from bench.controls import NullControls
    from bench.scorer import Scorer
    from bench.store import Store
    from bench.workshop import Workshop

    site = task.site
    os.environ.update(site.environment)
    attacks, victims = registry.attacks(site.plugin_dir), registry.victims(site.plugin_dir)
    store = Store(site.results_dir)
    workshop = Workshop(site.data_dir, torch.device(site.device), reporter, host=host, results_dir=site.results_dir)
    scorer = Scorer(store, workshop, NullControls(workshop, registry.random_control(attacks), site.twins))
    runner = Runner(store, workshop, scorer, site.again, output, debugger)
    run = task.run(attacks, victims)
    if task.failure is not None:
        return runner.lost(run, task.run_id, task.failure)
    return runner.run(run) if task.scored_under is None else runner.score(run, task.run_id, task.scored_under)
