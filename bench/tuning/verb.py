"""The verb `tune`: search an attack's parameters on a victim, and run what was picked as any other run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from rich.console import Console

from bench.commands import How, run_plan
from bench.evaluation import Reference, counts
from bench.executors import Site
from bench.plan import Run, attack_sources
from bench.records import TUNED_BY_ORACLE
from bench.scoring.protocols import protocol_named
from bench.store import Store, write_record
from bench.tuning.study import Sampler, SharedStudy
from bench.tuning.table import write_summary, write_trials
from bench.tuning.tuner import TrialReporter, Tuner
from bench.ui import TerminalReporter, plural
from bench.workshop import Workshop
from victims.errors import UserError
from victims.files import sha256_sources

if TYPE_CHECKING:
    from attacks.base import Reconstruction

TUNE = "tune"
"""`tuned_by` of a run whose parameters were chosen by the attacker's own objective; the studies' folder."""


def tune(
    runs: Sequence[Run], fixed: frozenset[str], site: Site, how: How, *, trials: int, sampler: Sampler, oracle: bool
) -> int:
    """Give every run's parameters `trials` trials, run the best, and return the exit status.

    Args:
        runs: what is tuned, each with the parameters that its trials start from.
        fixed: parameters that the user set, which are not searched.
        site: where to read, attack and write; the studies are in the folder `tune` of the results.
        how: how the picks are run; trials are run in this process.
        trials: how many each study has in all, whoever ran them.
        sampler: how parameters are drawn.
        oracle: pick by the number of good images, for which the training set is looked at.
    """
    console, store, picks = Console(), Store(site.results_dir), []
    for run in runs:
        reason = run.attack(run.params).supports(run.victim)
        if reason is not None:
            console.print(f"{run.title}: skipped ({reason})", highlight=False, markup=False, soft_wrap=True)
            continue
        with TerminalReporter(console) as shown:
            reporter = TrialReporter(shown)
            workshop = Workshop(site.data_dir, torch.device(site.device), reporter)
            folder = store.root / TUNE / _folder_name(run, sampler, oracle)
            study = _study(folder, run, fixed, workshop, sampler, oracle)
            tuner = Tuner(study, run, workshop, reporter, _counter(run, workshop) if oracle else None)
            for trial in tuner.work(trials):
                table = write_trials(folder, study.trials)
                row = table[table["trial"] == trial.number].iloc[0].dropna()
                figures = ", ".join(f"{name} {value:.4g}" for name, value in row.items() if isinstance(value, Real))
                text = f"{run.title}: trial {trial.number} {row['state']} {row.get('reason', figures)}"
                console.print(text, highlight=False, markup=False, soft_wrap=True)
        if study.running:
            text = (
                f"{run.title}: {plural(study.running, 'trial')} at work elsewhere; the last one to end makes the pick"
            )
            console.print(text, highlight=False, markup=False, soft_wrap=True)
        elif study.best is None:
            console.print(f"{run.title}: no trial came to an end; {folder}/trials.csv says why", style="red")
        else:
            picks.append(replace(tuner.tuned(study.best.params), tuned_by=TUNED_BY_ORACLE if oracle else TUNE))
    write_summary(store.root / TUNE)
    if not picks:
        return 1
    for pick in picks:
        _claim(pick, store, Workshop(site.data_dir, torch.device(site.device), TerminalReporter(console)))
    return run_plan(picks, site, how)


def _folder_name(run: Run, sampler: Sampler, oracle: bool) -> str:
    parts = (run.attack.name, run.variant, run.victim.name, str(sampler), TUNED_BY_ORACLE if oracle else "")
    return "-".join(part for part in parts if part)


def _study(
    folder: Path, run: Run, fixed: frozenset[str], workshop: Workshop, sampler: Sampler, oracle: bool
) -> SharedStudy:
    """Return the run's study, new or as it is.

    Raises:
        UserError: there is nothing to search, or the folder holds another study.
    """
    declared = run.attack.search_spaces.get(run.variant, {})
    ranges = {name: range_ for name, range_ in declared.items() if name not in fixed}
    if not ranges:
        known = ", ".join(f"--variant {name}" if name else "no variant" for name in run.attack.search_spaces) or "none"
        raise UserError(f"{run.title}: there is nothing to search; search spaces of {run.attack.name}: {known}")
    params = run.params.model_dump(mode="json")
    identity = {
        "attack source": sha256_sources(attack_sources(run.attack)),
        "victim": workshop.victim_key(run.victim),
        "parameter set": {name: value for name, value in params.items() if name not in ranges},
        "seed": run.seed,
        "budget": str(run.budget),
        "choice": TUNED_BY_ORACLE if oracle else TUNE,
    }
    return SharedStudy(folder, ranges, sampler, run.seed, identity)


def _counter(run: Run, workshop: Workshop) -> Callable[[Reconstruction], int]:
    """Return what counts good images under the attack's protocol: what an oracle looks at."""
    protocol = protocol_named(run.attack.protocol)
    truth = Reference.of(workshop.victim(run.victim)).truth
    return lambda found: counts(protocol, found.candidates.float().cpu(), truth)["n_good"]


def _claim(pick: Run, store: Store, workshop: Workshop) -> None:
    """Let a stored run that an oracle picked be the attacker's if the attacker picks the same."""
    stored = store.find(workshop.run_id(pick))
    if stored is not None and (stored.tuned_by, pick.tuned_by) == (TUNED_BY_ORACLE, TUNE):
        with store.rewriting(stored.run_id) as folder:
            write_record(folder, stored.model_copy(update={"tuned_by": TUNE}))
