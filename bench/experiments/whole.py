"""A plan file from its first section to its last: runs, studies and searches, and how long they will take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from attacks.context import Budget
from bench.plan.config import PlanFile, TuneSection, planned, require_images
from bench.plan.options import attack_params
from bench.plan.run import Run
from bench.publish.numbers import duration
from bench.run.session import Session
from bench.run.setup import Setup
from bench.run.todo import todo
from bench.terminal.progress import TerminalReporter, plural
from victims.errors import UserError

if TYPE_CHECKING:
    from attacks.base import Attack
    from attacks.studies.base import Study
    from bench.plan.registry import Registry, Victims


class Known(NamedTuple):
    """The attacks, victims and studies that the names of a plan may mean."""

    attacks: Registry[type[Attack[Any]]]
    victims: Victims
    studies: Registry[Study]


def announced(plan: PlanFile, known: Known, setup: Setup, budget: Budget, smoke: bool) -> list[str]:
    """Return a line for each section of a plan: what is left of it, and how long that takes.

    Args:
        plan: the plan, with the changes of the command line.
        known: what its names mean.
        setup: where results are.
        budget: of each run.
        smoke: whether studies are made of their few and cheap cells.

    Raises:
        UserError: there is no such attack, victim, variant, parameter, seed or study, or a search has nothing to
            search.
    """
    from bench.experiments.forecast import forecast, times_of

    lines = []
    with TerminalReporter(Console()) as reporter:
        session, times = Session(setup, reporter, downloads=False), times_of(setup.results_dir)
        for name in plan.sections:
            told = []
            of_section = (section for section in plan.plan if section.section == name)
            if runs := planned(of_section, known.attacks, known.victims, budget):
                told.append(forecast(todo(runs, setup, session), times, setup, session.is_trained).text)
            named = [study for table in plan.study if table.section == name for study in table.study]
            told += [_of_study(study, setup, smoke) for study in (known.studies.match(named) if named else ())]
            told += [_of_search(table, known) for table in plan.tune if table.section == name]
            lines.append(f"{name or 'the plan'}: {'; '.join(told)}")
    return lines


def run_rest(plan: PlanFile, known: Known, setup: Setup, smoke: bool) -> int:
    """Run the studies and then the searches of a plan, each where its own verb puts it, and return the exit status.

    Args:
        plan: the plan.
        known: what its names mean.
        setup: where results go.
        smoke: whether studies are made of their few and cheap cells.

    Raises:
        UserError: there is no such study, attack, victim or parameter, or a search has nothing to search.
    """
    from bench.experiments.study import part_of, run_study
    from bench.experiments.tuning.verb import Search, tune

    failed = False
    named = [name for table in plan.study for name in table.study]
    for study in known.studies.match(named) if named else ():
        cells, folder = part_of(study, setup.results_dir, smoke)
        apart = replace(setup, results_dir=folder, twins=False, jobs=min(setup.jobs, 1))
        failed |= bool(run_study(study, cells, known.attacks, known.victims, apart))
    for table in plan.tune:
        runs = _searched(table, known)
        search = Search(table.trials, "random", table.oracle, 0, frozenset(table.set))
        failed |= bool(tune(runs, setup, search))
    return int(failed)


def _searched(table: TuneSection, known: Known) -> list[Run]:
    """Return what a table searches, each with the parameters that its trials start from.

    Raises:
        UserError: there is no such attack, victim, variant or parameter, or a victim has no images.
    """
    tuned = known.victims.match(table.victim)
    require_images(tuned)
    return [
        Run(kind, attack_params(kind, table.variant, table.set), table.variant, "", spec, 0)
        for spec in tuned
        for kind in known.attacks.match(table.attack)
    ]


def _of_study(study: Study, setup: Setup, smoke: bool) -> str:
    """Return what a study's table says of how long it took."""
    import pandas as pd

    from bench.experiments.study import part_of
    from bench.store.cells import read_cells

    cells, folder = part_of(study, setup.results_dir, smoke)
    try:
        stored = read_cells(folder / f"{study.name}.csv")
        seconds = pd.to_numeric(stored["wall_s"], errors="coerce").dropna()
    except (UserError, KeyError):
        return f"study {study.name}, {plural(len(cells), 'run')}"
    took = f", {len(stored)} in its table" + (f", which took {duration(seconds.sum())}" if len(seconds) else "")
    return f"study {study.name}, {plural(len(cells), 'run')}{took}"


def _of_search(table: TuneSection, known: Known) -> str:
    """Return what a table searches, and how often; raise what `announced` does."""
    from bench.experiments.tuning.verb import ranges_of

    for run in _searched(table, known):
        if run.possible():
            ranges_of(run, table.set)
    searched = f"{', '.join(table.attack)} on {', '.join(table.victim)}"
    return f"search of {searched}, {plural(table.trials, 'trial')} each"
