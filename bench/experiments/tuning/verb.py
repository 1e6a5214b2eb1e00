"""The verb `tune`: search an attack's parameters on a victim, and run what was picked as any other run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from bench.experiments.sweep import run_plan
from bench.experiments.tuning.pool import write_pool
from bench.experiments.tuning.table import TRIALS, read_trials, write_summary, write_trials
from bench.experiments.tuning.trials import JOURNAL, Sampler, SharedStudy
from bench.experiments.tuning.tuner import TrialReporter, Tuner
from bench.plan import registry
from bench.plan.run import Run
from bench.run.executors.processes import isolated_attacks
from bench.run.failures import failure_of
from bench.run.session import Session
from bench.run.setup import Setup
from bench.scoring.evaluation import Reference, count_scores
from bench.scoring.protocols import protocol_named
from bench.store.folders import Store, write_record
from bench.store.records import TUNED_BY_ORACLE
from bench.terminal.console import say
from bench.terminal.progress import TerminalReporter, plural
from bench.terminal.text import describe
from victims.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    from optuna.trial import FrozenTrial

    from attacks.base import Range, Reconstruction

TUNE = "tune"
"""`tuned_by` of a run whose parameters were chosen by the attacker's own objective; the studies' folder."""


@dataclass(frozen=True)
class Search:
    """How parameters are searched.

    Attributes:
        trials: how many each study has in all, whoever ran them.
        sampler: how parameters are drawn.
        oracle: pick by the number of good images, for which the training set is looked at.
        pool: how many of the best trials are pooled, too; 0 for none.
        fixed: parameters that the user set, which are not searched.
    """

    trials: int
    sampler: Sampler
    oracle: bool
    pool: int
    fixed: frozenset[str]


def tune(runs: Sequence[Run], setup: Setup, search: Search) -> int:
    """Search the parameters of each run, run the best ones, and return the exit status: 1 if a search or a run failed.

    Args:
        runs: what is tuned, each with the parameters that its trials start from.
        setup: where to read, attack and write, the studies in the folder `tune` of the results; and how the picks are
            run. Trials are made here one after the other, their attacks in processes of their own unless `jobs` is 0.
        search: how they are searched.

    Raises:
        UserError: there is nothing to search, a study cannot go on, or its folder holds another one.
    """
    for run in runs:  # a mistake is told before the first search
        ranges_of(run, search.fixed)
    status = 0
    for run in runs:
        pick, failed = _searched(run, setup, search)
        status = max(status, int(failed), 0 if pick is None else run_plan([pick], setup))
    write_summary(setup.results_dir / TUNE, lambda text: say(text, Console()))
    return status


def _searched(run: Run, setup: Setup, search: Search) -> tuple[Run | None, bool]:
    """Search the parameters of a run; return it with those that were picked, if any, and whether something failed."""
    console, store = Console(), Store(setup.results_dir)
    attacking = isolated_attacks(setup) if setup.jobs else nullcontext()
    with attacking as host, TerminalReporter(console) as shown:
        reporter = TrialReporter(shown)
        session = Session(setup, reporter, host=host)
        try:
            reason = run.declined()
        except Exception as error:  # a plug-in's own method, which must cost only itself
            reporter.notice(f"{run.title}: it cannot say whom it takes: {describe(error)}")
            return None, True
        if reason is not None:
            reporter.notice(f"{run.title}: skipped ({reason})")
            return None, False
        folder = store.root / TUNE / _folder_name(run, search)
        if _whole(folder, search):
            reporter.notice(f"{run.title}: {folder / TRIALS} has its {plural(search.trials, 'trial')}")
            return None, False
        study = _study(folder, run, session, search)
        tuner = Tuner(study, run, session, reporter, _counter(run, session) if search.oracle else None)
        if line := tuner.changed_source():
            reporter.notice(line)
        _work(tuner, search.trials, console)
        if running := study.running:  # before the best is asked for: who ends the last trial sees all of them
            still = f"another process, with {plural(running, 'trial')} still to end"
            reporter.notice(f"{run.title}: {still}, will pick the best")
            return None, False
        best = study.best(max(search.pool, 1))
        if not best:
            reporter.notice(f"{run.title}: no trial came to an end; {study.folder / TRIALS} says why")
            return None, True
        failed = False
        try:
            _pool(tuner, best[: search.pool], setup, console)
        except (Exception, SystemExit) as error:  # an attack's own, with --jobs 0, which must not cost the pick
            failed = True
            reporter.notice(f"{run.title}: the best trials are not pooled: {failure_of(error).reason}")
        pick = replace(tuner.tuned(best[0].params), tuned_by=_chooser(search))
        _claim(pick, store, session)
        return pick, failed


def _chooser(search: Search) -> str:
    """Return who picks, as in the column `tuned_by`."""
    return TUNED_BY_ORACLE if search.oracle else TUNE


def _work(tuner: Tuner, trials: int, console: Console) -> None:
    """Run what is left of the trials, and write and print each."""
    for trial in tuner.work(trials):
        table = _written(tuner.study)
        row = table[table["trial"] == trial.number].iloc[0].dropna()
        figures = ", ".join(f"{name} {value:.4g}" for name, value in row.items() if isinstance(value, Real))
        text = f"{tuner.run.title}: trial {trial.number} {row['state']} {row.get('reason', figures)}"
        say(text, console)
    _written(tuner.study)  # others may have ended theirs since, and have been killed before they wrote it


def _written(study: SharedStudy) -> pd.DataFrame:
    """Write the table of a study's trials and return it; nobody writes an older one over it."""
    with study.lock:
        return write_trials(study.folder, study.trials)


def _pool(tuner: Tuner, trials: Sequence[FrozenTrial], setup: Setup, console: Console) -> None:
    """Score the candidates of some trials together, if any are asked for."""
    if trials:
        control = registry.random_control(registry.attacks(setup.plugin_dir))
        text = f"{tuner.run.title}: {write_pool(tuner.study.folder, tuner, trials, control)}"
        say(text, console)


def _folder_name(run: Run, search: Search) -> str:
    parts = (run.attack.name, run.variant, run.victim.name, search.sampler, "oracle" if search.oracle else "")
    return "-".join(part for part in parts if part)


def ranges_of(run: Run, fixed: Collection[str]) -> dict[str, Range]:
    """Return the ranges of the parameters that a search of a run's attack varies, by name.

    Args:
        run: the attack and its parameter set.
        fixed: parameters that are not searched.

    Raises:
        UserError: there is nothing to search.
    """
    declared = run.attack.search_spaces.get(run.variant, {})
    ranges = {name: span for name, span in declared.items() if name not in fixed}
    if not ranges:
        known = ", ".join(f"--variant {name}" if name else "no variant" for name in run.attack.search_spaces) or "none"
        raise UserError(f"{run.title}: there is nothing to search; search spaces of {run.attack.name}: {known}")
    return ranges


def _whole(folder: Path, search: Search) -> bool:
    """Say whether a table that came without its journal, such as a published one, has all trials.

    Raises:
        UserError: it cannot be read.
    """
    table = folder / TRIALS
    return table.exists() and not (folder / JOURNAL).exists() and len(read_trials(table)) >= search.trials


def _study(folder: Path, run: Run, session: Session, search: Search) -> SharedStudy:
    """Return the run's study, new or as it is.

    Raises:
        UserError: there is nothing to search, or the folder holds another study, or a table of fewer trials without a
            journal.
    """
    if (folder / TRIALS).exists() and not (folder / JOURNAL).exists():
        raise UserError(
            f"{folder / TRIALS} is of a search whose {JOURNAL} is not there, so it cannot go on; "
            "choose another --results-dir, or remove it to search anew"
        )
    ranges = ranges_of(run, search.fixed)
    params = run.params.model_dump(mode="json")
    identity = {
        "attack version": run.attack.version,
        "victim": session.victim_key(run.victim),
        "parameter set": {name: value for name, value in params.items() if name not in ranges},
        "seed": run.seed,
        "budget": str(run.budget),
        "choice": _chooser(search),
    }
    return SharedStudy(folder, ranges, search.sampler, run.seed, identity)


def _counter(run: Run, session: Session) -> Callable[[Reconstruction], int]:
    """Return what counts good images under the attack's protocol: what an oracle looks at."""
    protocol = protocol_named(run.protocol)
    reference = Reference.of(session.victim(run.victim))
    return lambda found: count_scores(protocol, reference.matcher(found.candidates))["n_good"].n_good


def _claim(pick: Run, store: Store, session: Session) -> None:
    """Mark a stored run that an oracle picked as the attacker's, if the attacker has now picked the same."""
    run_id = session.run_id(pick)
    with store.claimed(run_id, session.reporter.notice):
        stored = store.find(run_id)
        if stored is not None and (stored.tuned_by, pick.tuned_by) == (TUNED_BY_ORACLE, TUNE):
            with store.writing(run_id, copied=True) as folder:
                write_record(folder, stored.model_copy(update={"tuned_by": TUNE}))
