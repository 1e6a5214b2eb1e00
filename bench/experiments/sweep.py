"""The verbs `run` and `score`: execute a plan or score what is stored, tell the user, and write the tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from bench.experiments.tables import SweepTables
from bench.experiments.verdict import Given, leading, unit_of, verdict
from bench.experiments.weights import told_conflicts
from bench.plan.run import Run, told_apart
from bench.publish.runs_table import read_runs, records_of
from bench.run.executors.choice import executor_for
from bench.run.executors.task import Task
from bench.run.nulls.later import lacks_twins
from bench.run.provenance import run_of
from bench.run.runner import Outcome
from bench.run.session import Session
from bench.run.setup import Setup
from bench.run.steps import Step, passing
from bench.run.todo import Todo, changed_sources, todo, why
from bench.scoring.protocols import PROTOCOLS, protocol_named
from bench.store.file_names import GRID, LOG, RUNS_CSV
from bench.store.folders import Store, write_record
from bench.store.records import FAILED, RunRecord, Status
from bench.terminal.console import say
from bench.terminal.progress import TerminalReporter, plural
from victims.errors import UserError

if TYPE_CHECKING:
    from attacks.base import Attack
    from bench.plan.registry import Registry, Victims


def run_plan(plan: Sequence[Run], setup: Setup) -> int:
    """Execute a plan, tell how it ended, and return the exit status: 0 if all runs ended well, 1 if one failed.

    The status is also 1 if stored runs met different weights under one definition of a victim, or if the tables could
    not be written at the end.

    Raises:
        UserError: no run of the plan has its data, or the tables cannot be read or written before the work begins.
    """
    console, store = Console(), Store(setup.results_dir)
    executed = execute_plan(plan, setup)
    rows, failures = executed.rows, executed.failures
    for sentence in verdict(rows, _picture(store, rows), Given.of(setup)):
        say(sentence, console)
    if setup.only_cached:
        if len(rows) < len(plan):
            say(f"{plural(len(plan) - len(rows), 'run')} of {len(plan)} not stored", console)
        if (table := store.root / RUNS_CSV).exists():
            say(f"{table} has {plural(len(read_runs(table)), 'row')}", console)
    if failures:
        say(f"{plural(failures, 'run')} of {len(plan)} failed", console, "red")
    return executed.status


class Executed(NamedTuple):
    """What became of a plan.

    Attributes:
        rows: the records of its runs.
        failures: how many of them failed.
        clashes: number of its victims of which stored runs met different weights under one definition. Rows of
            runs.csv whose run folders are elsewhere do not count: another processor rounds a training otherwise.
        behind: whether the tables lack some of the rows, because they could not be written at the end.
        before: how many of the runs had been made before, and were not made again.
    """

    rows: list[RunRecord]
    failures: int
    clashes: int
    behind: bool
    before: int

    @property
    def status(self) -> int:
        """The exit status: 0 if all is well."""
        return 1 if self.failures or self.clashes or self.behind else 0


def execute_plan(plan: Sequence[Run], setup: Setup) -> Executed:
    """Execute a plan, and return what became of it; a line tells of each run.

    A run is stored before its line is printed, so an interrupt or a kill loses only the runs in progress. The tables
    are made of what is stored, now and then and at the end.

    Raises:
        UserError: no run of the plan has its data, or the tables cannot be read or written before the work begins.
    """
    console, store = Console(), Store(setup.results_dir)
    store.sweep()
    failures, rows = 0, list[RunRecord]()
    with TerminalReporter(console) as reporter, SweepTables(store, reporter, setup.copy_to) as tables:
        session = Session(setup, reporter, downloads=not setup.only_cached)
        entries = todo(told_apart(plan), setup, session)
        titles = {entry.run_id: entry.run.title for entry in entries}
        for line in changed_sources(entries, session):
            reporter.notice(line)
        there, left = list[Todo](), list[Todo]()
        for entry in entries:
            (there if entry.step is Step.NOTHING or (setup.only_cached and entry.shown) else left).append(entry)
        stored = (Outcome(entry.stored, cached=True) for entry in there if entry.stored is not None)
        for entry in left if setup.only_cached else ():
            if reason := why(entry, session):
                reporter.notice(f"{entry.run.title}: {reason}")
        executed: Iterable[Outcome] = ()
        if left and not setup.only_cached:
            tasks = [Task.of(entry.run, entry.run_id, setup) for entry in left]
            executed = executor_for(reporter, setup).execute(tasks)
        for outcome in _settled(chain(stored, executed), store, reporter):
            record = outcome.record
            title = titles.get(record.run_id, record.title)  # without data at first, a run has another id at its end
            failures += bool(outcome.trouble or record.trouble)
            if not outcome.cached:
                tables.follow(record)
            say(f"{title}: {_line(record, outcome.cached)}", console)
            if trouble := outcome.trouble or (record.trouble if record.status is Status.OK else ""):
                reporter.notice(f"{title}: {trouble}")
            _paths(console, store, record)
            rows.append(record)
    before = sum(entry.step is not Step.ATTACK for entry in entries)
    return Executed(rows, failures, told_conflicts(console, store, rows, tables.board), tables.behind, before)


def _settled(outcomes: Iterable[Outcome], store: Store, reporter: TerminalReporter) -> Iterator[Outcome]:
    """Yield outcomes; failures for want of data are held back, and stored once any run has an outcome that is stored.

    Raises:
        UserError: no run has: that is no result, but a mistake that one line tells.
    """
    held: list[Outcome] = []
    settled = False
    for outcome in outcomes:
        held.append(outcome)
        settled = settled or outcome.stored
        while settled and held:
            first = held.pop(0)
            yield first if first.stored else _settled_failure(first, store, reporter)
    if held:
        why, trouble = held[0].record.reason, held[0].trouble
        raise UserError(f"{why}; {trouble}" if trouble and trouble != why else why)


def _settled_failure(outcome: Outcome, store: Store, reporter: TerminalReporter) -> Outcome:
    """Return a failure for want of data as an outcome, stored unless an earlier run found something."""
    run_id = outcome.record.run_id
    try:
        with store.claimed(run_id, reporter.notice):
            before = store.find(run_id)
            if before is not None and before.status is Status.OK:
                return Outcome(before, trouble=outcome.record.reason)
            record = outcome.record.model_copy(update={"sequence": store.next_sequence()})
            with store.writing(run_id) as folder:
                write_record(folder, record)
    except OSError as error:
        return replace(outcome, trouble=f"this row cannot be stored ({error.strerror})")
    return replace(outcome, record=record)


def without_twins(store: Store, attacks: Registry[type[Attack[Any]]]) -> list[RunRecord]:
    """Return the rows of runs.csv whose run folders are elsewhere and which lack nothing but what twins get.

    Rows of another version of their attack are left out: boards have none of them, or it cannot be run any more.

    Raises:
        UserError: the table cannot be read.
    """
    table = store.root / RUNS_CSV
    rows = records_of(read_runs(table)) if table.exists() else []
    versions = {name: kind.version for name, kind in attacks.items.items()}
    ours = (row for row in rows if versions.get(row.attack) == row.attack_version and row.protocol in PROTOCOLS)
    return [row for row in ours if not store.folder(row.run_id).exists() and lacks_twins(row)]


def score_stored(
    records: Sequence[RunRecord],
    rows: Sequence[RunRecord],
    attacks: Registry[type[Attack[Any]]],
    victims: Victims,
    setup: Setup,
    protocol: str,
) -> int:
    """Score stored reconstructions again, write the tables, and return 0, or 1 if one could not be scored.

    The status is also 1 if the tables cannot be written at the end. An interrupt writes them too.

    Args:
        records: the runs.
        rows: of runs whose run folders are elsewhere: twins are attacked for them, and nothing is scored again.
        attacks: all that are known.
        victims: likewise.
        setup: where they are read and written, and how the scoring is executed.
        protocol: score under this protocol, as rows of their own; empty for each run's own.
    """
    console, store = Console(), Store(setup.results_dir)
    troubles, meant, elsewhere = 0, list[tuple[RunRecord, Run]](), {id(row) for row in rows}
    with TerminalReporter(console) as reporter, SweepTables(store, reporter) as tables:
        for record in (*records, *rows):
            try:
                run = run_of(record, attacks, victims)
                if protocol:
                    _require_same_subject(protocol, run)
                meant.append((record, run))
            except UserError as error:
                troubles += 1
                reporter.notice(str(error))
        runs = told_apart([run for _, run in meant])
        titles = {record.run_id: run.title for (record, _), run in zip(meant, runs, strict=True)}
        tasks = []
        for (record, _), run in zip(meant, runs, strict=True):
            task = Task.of(run, record.run_id, setup)
            changes = {"row": record} if id(record) in elsewhere else {"scored_under": protocol}
            tasks.append(replace(task, **changes))
        for outcome in executor_for(reporter, setup).execute(tasks) if tasks else ():
            title = titles[outcome.record.run_id]
            if outcome.stored:
                tables.follow(outcome.record)
            elif not outcome.trouble:
                tables.change(outcome.record)
            if trouble := outcome.trouble or outcome.record.trouble:
                troubles += 1
                reporter.notice(f"{title}: {trouble}")
            else:
                say(f"{title}: {_line(outcome.record)}", console)
    if troubles:
        say(f"{plural(troubles, 'run')} of {len(records) + len(rows)} could not be scored", console, "red")
    return 1 if troubles or tables.behind else 0


def _require_same_subject(protocol: str, run: Run) -> None:
    """Check that a protocol can score a run.

    Raises:
        UserError: it scores something else.
    """
    asked, own = protocol_named(protocol).subject, protocol_named(run.protocol).subject
    if asked != own:
        raise UserError(f"{run.title}: the protocol {protocol} scores {asked}, and these are {own}")


def _line(record: RunRecord, cached: bool = False) -> str:
    """Return how a run ended."""
    if record.status is Status.OK and not record.n:
        return f"{record.n_candidates} candidates, and no training {unit_of(record)} to compare them with"
    if record.status is Status.OK and record.n_good is None:
        return "attacked, and not scored; `run` scores it again"
    if record.status is not Status.OK:
        who = "each `run`" if passing(record) else "--retry-failed"
        stored = f" (stored; {who} runs it again)" if cached and record.status in FAILED else ""
        return f"{record.status} ({record.reason}){stored}"
    good = f"good {_against(record.n_good, record.null_n_good)} under {record.protocol}"
    parts = [good]
    if record.n_good_unique is not None:
        # the count of the verdict and of the ranks comes first, and beside each other what they count
        several = [name for name, protocol in PROTOCOLS.items() if protocol.matching == "nearest"]
        shared = "where a candidate may serve several, " if record.protocol in several else ""
        haim_min = f"{_against(record.n_good_haim_min, record.null_n_good_haim_min)} under haim2022-min"
        haim_mean = f"{_against(record.n_good_haim_mean, record.null_n_good_haim_mean)} under haim2022-mean"
        parts = [
            f"{_against(record.n_good_unique, record.null_n_good_unique)}, each from a candidate of its own",
            f"{shared}{good}, {haim_min}, {haim_mean}",
        ]
        if record.n_good_at_1pct is not None:
            parts.append(f"{record.n_good_at_1pct} above the SSIM that 1% of the held-out ones pass")
    elif record.n_fixed is not None and record.oracle_mse is not None:
        parts.append(f"mean MSE {record.mse_mean:.3g} (nearest known image: {record.oracle_mse:.3g})")
    if record.test_accuracy is not None and not math.isnan(record.test_accuracy):
        parts.append(f"test accuracy {record.test_accuracy:.3g}")
    parts.append(f"attack {record.wall_s:.0f} s, training {record.train_s:.0f} s")
    stored = " (stored; --force runs it again)" if cached else ""
    return f"of {record.n} {unit_of(record)}, {'; '.join(parts)}{stored}"


def _against(count: int | None, null: int | None) -> str:
    return f"{count}" if null is None else f"{count} (chance {null})"


def _picture(store: Store, records: Sequence[RunRecord]) -> Path | None:
    """Return the picture of the run that a verdict speaks of, None if it has none."""
    best = leading(records)
    path = None if best is None else store.folder(best.run_id) / GRID
    return path if path is not None and path.exists() else None


def _paths(console: Console, store: Store, record: RunRecord) -> None:
    shown = store.folder(record.run_id) / (GRID if record.status is Status.OK else LOG)
    if shown.exists():
        say(f"  {shown}", console)
