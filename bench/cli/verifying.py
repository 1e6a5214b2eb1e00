"""The verb `verify`: do the tables, or runs that are made again, say what the READMEs and the findings say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bench.cli.app import Controls, DataDir, Device, ReadResults, app, complain, jobs_option, named_folder
from bench.terminal.console import say
from bench.terminal.interrupts import work_begins
from bench.terminal.progress import plural
from victims.errors import UserError

if TYPE_CHECKING:
    from bench.publish.claims import Claim
    from bench.run.setup import Setup

CLAIMS = "claims.toml"
ROOMY = 4 << 30
"""Bytes that a run made again may take; none that is stored took more than three quarters of it."""


@app.command()
def verify(
    results_dir: ReadResults = Path("results"),
    claims: Annotated[
        Path | None,
        typer.Option(parser=named_folder, metavar="PATH", help="The entries; claims.toml of the results folder."),
    ] = None,
    rerun: Annotated[
        Literal["quick", "all"] | None, typer.Option(help="Make the runs again: the cheap ones, or all.")
    ] = None,
    rerun_dir: Annotated[
        Path | None,
        typer.Option(
            parser=named_folder,
            metavar="PATH",
            help="Where runs that are made again are kept; the folder rerun of the cache.",
        ),
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    controls: Controls = "quick",
    jobs: Annotated[
        int | None,
        jobs_option("Runs at a time, each in its own process; 0: in this one. If not given, one a core, on a GPU one."),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Print what holds, too.")] = False,
) -> None:
    """Check that the stored tables support every sentence of claims.toml, and that every figure has an entry.

    A claim holds, does not hold, or is not comparable, with the reason. Exit status 1 if one does not hold, a figure of
    the READMEs or of results/findings has no entry, or a leaderboard is not what runs.csv makes. --rerun measures
    again, and checks that instead; then also if a run fails.
    """
    from bench.plan.registry import ROOT
    from bench.publish import claims as entries

    if not results_dir.is_dir():
        raise UserError(f"there is no results folder {results_dir}; name one with --results-dir")
    stated: Sequence[Claim] = entries.read_claims(claims or results_dir / CLAIMS)
    status = 0
    if rerun is None:
        documents = ROOT if (ROOT / "results").resolve() == results_dir.resolve() else None
        findings = entries.verify(stated, results_dir, documents)
    else:
        from bench.plan.options import choose_data_dir, choose_device
        from bench.run.setup import Setup
        from victims.cache import cache_dir

        folder = rerun_dir or cache_dir() / "rerun"
        if folder.resolve() == results_dir.resolve():
            raise UserError(f"--rerun-dir {folder} holds the stored runs themselves; name a folder of its own")
        data, twins = choose_data_dir(data_dir), controls == "all"
        chosen = str(choose_device(device))
        setup = Setup(folder, data, None, chosen, twins, jobs=_one_a_core(chosen) if jobs is None else jobs)
        again, status = _rerun(stated, rerun, results_dir, setup)
        findings = entries.verify(again, folder)
    for finding in findings:
        line = f"{finding.outcome}: {finding.text}{': ' + finding.why if finding.why else ''}"
        beside = f" [{finding.beside}]" if finding.beside else ""
        if finding.outcome is entries.ClaimOutcome.FAILS:
            complain(line + beside)
        elif all_ or finding.outcome is entries.ClaimOutcome.UNKNOWN or finding.beside:
            say(line + beside)
    counts = Counter(finding.outcome for finding in findings)
    say(", ".join(f"{counts[outcome]} {outcome}" for outcome in entries.ClaimOutcome))
    raise typer.Exit(1 if counts[entries.ClaimOutcome.FAILS] else status)


def _one_a_core(device: str) -> int:
    """Return how many runs are made at a time if nobody says: as many as there are cores and memory; one on a GPU.

    Most stored runs had one thread. More of them round in another order, which moves a long search.
    """
    from bench.run.executors.machine import cores, free_memory

    return min(cores(), max(1, free_memory() // ROOMY)) if device == "cpu" else 1


def _rerun(
    claims: Sequence[Claim], tier: Literal["quick", "all"], results: Path, setup: Setup
) -> tuple[list[Claim], int]:
    """Make the runs again that claims of a tier speak of; return these claims as they speak of the new runs.

    The second value is the exit status of the runs: 1 if one failed.
    """
    from bench.experiments.rerun import remeasured
    from bench.experiments.sweep import execute_plan
    from bench.plan import registry
    from bench.store.folders import Store

    chosen, plan = remeasured(claims, tier, results, registry.attacks(), registry.victims())
    if not chosen:
        raise UserError(f"--rerun {tier} finds no claim on a run or a leaderboard that it takes; nothing is run again")
    Store(setup.results_dir).require_writable("--rerun-dir")
    work_begins()
    if not plan:
        return chosen, 0
    executed = execute_plan(plan, setup)
    stored = f"{plural(executed.before, 'more run')} stored in {setup.results_dir} before"
    there = f"; {stored}; an empty --rerun-dir makes all again"
    say(f"{plural(len(plan) - executed.before, 'run')} made{there if executed.before else ''}")
    return chosen, executed.status
