"""The verb `audit`: measure the exposure, run what can work, and write audit.html, audit.json and records.csv."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from rich.console import Console

from attacks.context import Budget
from bench import __version__
from bench.experiments.audit import findings, words
from bench.experiments.audit.candidates import surest
from bench.experiments.audit.cells import runs_of
from bench.experiments.audit.model import Audit, Environment, Record
from bench.experiments.audit.page import render, telling
from bench.experiments.audit.scores import Scored, scored
from bench.experiments.sweep import execute_plan
from bench.plan.exposed import exposure_lines
from bench.plan.prospects import Outlook, Prospect, named, prospects
from bench.plan.registry import Registry, random_control
from bench.run.null_controls import NullControls
from bench.run.provenance import git_commit, now_utc
from bench.run.session import Session
from bench.run.setup import Setup
from bench.store.cells import to_csv
from bench.store.folders import Store
from bench.store.records import RunRecord, Status
from bench.terminal.progress import TerminalReporter
from bench.terminal.text import lines
from victims.base import Victim
from victims.errors import UserError
from victims.exposure.card import Exposure
from victims.exposure.reading import exposure
from victims.files import write_text
from victims.spec import VictimSpec
from victims.training.hardware import cpu_name, gpu_name

if TYPE_CHECKING:
    from attacks.base import Attack

PAGE, DATA, RECORDS = "audit.html", "audit.json", "records.csv"


@dataclass(frozen=True)
class Asked:
    """What the user asked for.

    Attributes:
        file: the file that describes the model.
        budget: what all attacks together may spend.
        fail_above: the exit status is 1 if more records fall; None for never.
    """

    file: Path
    budget: Budget
    fail_above: int | None = None

    def command(self, spec: VictimSpec) -> str:
        """Return what makes the same audit again."""
        fail = [] if self.fail_above is None else ["--fail-above", str(self.fail_above)]
        words_ = [
            "python",
            "-m",
            "bench",
            "audit",
            str(self.file),
            "-v",
            spec.name,
            "--budget",
            str(self.budget),
            *fail,
        ]
        return shlex.join(words_)


def audit(spec: VictimSpec, attacks: Registry[type[Attack[Any]]], setup: Setup, asked: Asked) -> int:
    """Audit a model and return the exit status: 1 if more records fall than are allowed, or cannot be tested.

    Args:
        spec: the model.
        attacks: all that are known.
        setup: the results folder is that of this audit alone.
        asked: what the user asked for.

    Raises:
        UserError: the budget is no time or too short, the model does not classify the images given, nothing can be
            written, or records are to be counted and none are given.
    """
    if not spec.n and asked.fail_above is not None:
        raise UserError(f"--fail-above counts training images, and {spec.name} was given without; give `images`")
    if asked.budget.seconds is None:
        raise UserError(f"--budget {asked.budget}: an audit takes a time, such as 20m")
    console, store = Console(), Store(setup.results_dir)
    store.require_writable()
    with TerminalReporter(console) as reporter:
        session = Session.of(setup, reporter)
        victim = session.victim(spec)
        assert isinstance(victim, Victim)
        if trouble := victim.unlearnt:
            raise UserError(f"victim {spec.name}: {trouble}")
        reporter.notice("exposure: spectrum, seed and start are measured")
        card = exposure(victim)
    found = list(prospects(attacks.items.values(), spec, card))
    _tell(console, card, found)
    plan = runs_of(found, spec, asked.budget)
    rows, failures = execute_plan(plan, setup) if plan else ([], 0)
    by_name = {named(row.attack, row.variant): row for row in rows}
    with TerminalReporter(console) as reporter:
        session = Session.of(setup, reporter)
        controls = NullControls(session, random_control(attacks), twins=False)
        planned = {named(run.attack.name, run.variant): run for run in plan}
        ended = {
            name: (planned[name], row.run_id)
            for name, row in by_name.items()
            if row.status is Status.OK and row.n_good is not None
        }
        reached = scored(ended, victim, store, controls)
        unverified = {name: row.run_id for name, row in by_name.items() if row.status is Status.OK and not row.n}
        candidates = surest(unverified, victim, store)
    result, records = _audit(victim, card, found, by_name, reached, asked, setup)
    _write(setup.results_dir, result, records, render(result, telling(records, reached), candidates))
    for sentence in (result.headline, *result.verdict):
        console.print(lines(sentence), highlight=False, markup=False, soft_wrap=True)
    console.print(f"  {setup.results_dir / PAGE}", highlight=False, markup=False, soft_wrap=True)
    if asked.fail_above is None:
        return 0
    return int((result.hit or 0) > asked.fail_above or failures > 0)


def _tell(console: Console, card: Exposure, found: Sequence[Prospect]) -> None:
    """Print the exposure card, and what can work."""
    for name, value in exposure_lines(card):
        console.print(lines(f"{name}: {value}"), highlight=False, markup=False, soft_wrap=True)
    for outlook in (Outlook.OPEN, Outlook.DOUBTED):
        for prospect in found:
            if prospect.outlook is outlook:
                why = f": {prospect.reason}" if prospect.reason else ""
                text = lines(f"{prospect.name} {outlook}{why}")
                console.print(text, highlight=False, markup=False, soft_wrap=True)


def _audit(
    victim: Victim,
    card: Exposure,
    found: Sequence[Prospect],
    rows: dict[str, RunRecord],
    reached: Scored,
    asked: Asked,
    setup: Setup,
) -> tuple[Audit, list[Record]]:
    """Return the audit and its records."""
    tried = findings.attempts(found, rows, reached)
    beyond = [one.attack for one in tried if one.beyond_chance]
    records = findings.records(reached, beyond)
    n, spec = len(records), victim.spec
    threats = findings.threats(tried, n, victim.start is not None)
    hit = sum(bool(record.attacks) for record in records)
    device = torch.device(setup.device)
    assert asked.budget.seconds is not None
    result = Audit(
        name=spec.name,
        weights_sha256=victim.card.weights_sha256,
        created_utc=now_utc(),
        headline=words.headline(threats, n),
        verdict=words.verdict(threats),
        images_given=n,
        images_trained=spec.n_trained,
        held_out=len(victim.split.test_labels),
        hit=hit if n else None,
        null_hit=findings.hit_by_chance(reached, beyond) if n else None,
        exposure=card,
        threats=threats,
        attempts=tried,
        by_class=findings.by_class(records),
        by_margin=findings.by_margin(records),
        overlaps=findings.overlaps(records),
        limits=words.limits(victim, card, threats, tried, asked.budget.seconds / max(len(rows), 1)),
        advice=words.advice(threats),
        command=asked.command(spec),
        budget_seconds=asked.budget.seconds,
        environment=Environment(
            bench=__version__,
            commit=git_commit(),
            torch=torch.__version__,
            python=platform.python_version(),
            device=setup.device,
            hardware=gpu_name(device) or cpu_name(),
        ),
    )
    return result, records


def _write(folder: Path, result: Audit, records: Sequence[Record], page: str) -> None:
    """Write the page, the data and the table of records.

    Raises:
        UserError: the folder cannot be written.
    """
    rows = [record.model_dump() | {"attacks": " ".join(record.attacks)} for record in records]
    table = pd.DataFrame(rows, columns=list(Record.model_fields))
    try:
        write_text(folder / DATA, result.model_dump_json(indent=1))
        write_text(folder / RECORDS, to_csv(table))
        write_text(folder / PAGE, page)
    except OSError as error:
        raise UserError(f"cannot write the audit to {folder} ({error.strerror}); name another --results-dir") from None
