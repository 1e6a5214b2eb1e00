"""The verb `audit`: measure the exposure, run what can work, and write audit.html, audit.json and records.csv."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from rich.console import Console

from attacks.context import Budget
from bench import __version__
from bench.experiments.audit import findings, words
from bench.experiments.audit.candidates import surest
from bench.experiments.audit.cells import runs_of, share_of
from bench.experiments.audit.follows import follows, with_more
from bench.experiments.audit.last_record import LastRecords, attacked
from bench.experiments.audit.model import Audit, AuditAttempt, Environment, Record, Unit
from bench.experiments.audit.page import render, telling
from bench.experiments.audit.rows import row_table, side_by_side
from bench.experiments.audit.scores import Scored, scored
from bench.experiments.sweep import Executed, execute_plan
from bench.plan.exposed import exposure_lines
from bench.plan.prospects import Outlook, Prospect, prospects
from bench.plan.registry import Registry, random_control
from bench.run.nulls.controls import NullControls
from bench.run.provenance import git_commit, now_utc
from bench.run.session import Session
from bench.run.setup import Setup
from bench.store.cells import to_csv
from bench.store.folders import Store
from bench.store.records import Status
from bench.terminal.console import say
from bench.terminal.progress import Reporter, TerminalReporter
from bench.terminal.text import command, variant_name
from victims.base import Victim
from victims.errors import UserError
from victims.exposure.card import Exposure
from victims.exposure.reading import exposure
from victims.files import write_text
from victims.spec import VictimSpec
from victims.training.hardware import cpu_name, gpu_name

if TYPE_CHECKING:
    from attacks.base import Attack

PAGE, DATA, RECORDS, ROWS = "audit.html", "audit.json", "records.csv", "rows.csv"


@dataclass(frozen=True)
class Asked:
    """What the user asked for.

    Attributes:
        file: the file that describes the model.
        budget: what all attacks together may spend.
        fail_above: the exit status is 1 if more records fall; None for never.
        device: what attacks run on, "auto" for what is there.
        results_dir: the results folder that holds the audits.
    """

    file: Path
    budget: Budget
    fail_above: int | None = None
    device: str = "auto"
    results_dir: Path = Path("results")

    def command(self, spec: VictimSpec, changed: dict[str, str] | None = None) -> str:
        """Return the command that makes the same audit again, or one with other options, quoted for a shell."""
        options = {"-v": spec.name, "--budget": str(self.budget)} | (changed or {})
        words = ["audit", str(self.file), *(word for option in options.items() for word in option)]
        if self.fail_above is not None:
            words += ["--fail-above", str(self.fail_above)]
        return command(*words, *self.shared)

    @property
    def shared(self) -> tuple[str, ...]:
        """The options that another command on the model needs too: device and results folder, none for a default."""
        device = () if self.device == "auto" else ("--device", self.device)
        results = () if self.results_dir == Path("results") else ("--results-dir", str(self.results_dir))
        return *device, *results


def audit(spec: VictimSpec, attacks: Registry[type[Attack[Any]]], setup: Setup, asked: Asked) -> int:
    """Audit a model and return the exit status: with `fail_above`, 1 if more records fall or an attack failed; else 0.

    Args:
        spec: the model.
        attacks: all that are known.
        setup: where and how attacks are run; its results folder belongs to this audit alone.
        asked: what the user asked for.

    Raises:
        UserError: the budget is no time or too short, the model does not classify the images given, nothing can be
            written, the audit of another model of this name is there, or records are to be counted and none are given.
    """
    if not spec.n and asked.fail_above is not None:
        unit, option = ("rows", "records") if spec.tabular else ("images", "images")
        raise UserError(f"--fail-above counts training {unit}, and {spec.name} was given without; give `{option}`")
    if asked.budget.seconds is None:
        raise UserError(f"--budget {asked.budget}: an audit takes a time, such as 20m")
    console, store = Console(), Store(setup.results_dir)
    store.require_writable()
    with TerminalReporter(console) as reporter:
        session = Session(setup, reporter)
        victim = session.victim(spec)
        assert isinstance(victim, Victim)
        if trouble := victim.unlearnt:
            raise UserError(f"victim {spec.name}: {trouble}")
        _require_own(setup.results_dir / DATA, victim)
        reporter.notice("exposure: what the weights show at a look is measured")
        card = exposure(victim)
    found = list(prospects(attacks.items.values(), spec, card))
    _tell(console, card, found)
    plan = runs_of(found, spec, asked.budget)
    rows, failures, *_ = execute_plan(plan, setup) if plan else Executed([], 0, 0, behind=False, before=0)
    by_name = {variant_name(row.attack, row.variant): row for row in rows}
    with TerminalReporter(console) as reporter:
        session = Session(setup, reporter)
        controls = NullControls(session, random_control(attacks), twins=False)
        planned = {variant_name(run.attack.name, run.variant): run for run in plan}
        ended = {
            name: (planned[name], row.run_id)
            for name, row in by_name.items()
            if row.status is Status.OK and row.n_good is not None
        }
        made = _last_records(found, victim, setup, reporter, asked.budget)
        hits = {name: one.hits for name, one in made.items() if one.hits is not None}
        reached = scored(ended, victim, store, controls)
        reached = replace(reached, attacks=reached.attacks | hits)
        unverified = {name: row.run_id for name, row in by_name.items() if row.status is Status.OK and not row.n}
        candidates = [surest(name, run_id, victim, store) for name, run_id in unverified.items()]
        failures += len(made) - len(hits)
    more = with_more(attacks.items.values(), spec, found)
    tried = findings.attempts(found, by_name, made, reached)
    result, records = _audit(victim, card, tried, more, reached, asked, setup)
    units = victim.units
    if units is None:
        page = render(result, telling(records, reached), candidates)
    else:
        page = render(result, [], candidates, side_by_side(records, reached, units), units)
    beside = row_table(records, reached, units) if units is not None and records else None
    _write(setup.results_dir, result, records, page, beside)
    if changed := words.recounted(result.attempts, {name: row.protocol for name, row in by_name.items()}):
        say(changed, console)
    for sentence in (result.headline, *result.verdict, *result.follows):
        say(sentence, console)
    say(f"  {setup.results_dir / PAGE}", console)
    if asked.fail_above is None:
        return 0
    return int((result.hit or 0) > asked.fail_above or failures > 0)


def _require_own(path: Path, victim: Victim) -> None:
    """Check that an audit is not written over the one of another model.

    Raises:
        UserError: that of other weights is there.
    """
    try:
        audited = str(json.loads(path.read_text(encoding="utf-8"))["weights_sha256"])
    except (OSError, ValueError, TypeError, KeyError):  # no audit is there, or none that can be read
        return
    if audited != victim.card.weights_sha256:
        raise UserError(
            f"{path} is the audit of other weights of the name {victim.spec.name}; choose another --results-dir, give "
            "the model another name, or move the folder away"
        )


def _tell(console: Console, card: Exposure, found: Sequence[Prospect]) -> None:
    """Print the exposure card, and what can work."""
    for name, value in exposure_lines(card):
        say(f"{name}: {value}", console)
    for outlook in (Outlook.OPEN, Outlook.DOUBTED):
        for prospect in found:
            if prospect.outlook is outlook:
                why = f": {prospect.reason}" if prospect.reason else ""
                say(f"{prospect.name} {outlook}{why}", console)


def _last_records(
    found: Sequence[Prospect], victim: Victim, setup: Setup, reporter: Reporter, budget: Budget
) -> dict[str, LastRecords]:
    """Return what the attacks on the last record made of every record, by their name."""
    tried = [prospect for prospect in found if prospect.outlook is Outlook.OPEN]
    share = share_of(budget, len(tried))
    alone = (prospect for prospect in tried if prospect.attack.setting != victim.spec.setting)
    return {prospect.name: attacked(prospect, victim, setup, reporter, share) for prospect in alone}


def _audit(
    victim: Victim,
    card: Exposure,
    tried: Sequence[AuditAttempt],
    more: Mapping[str, Sequence[str]],
    reached: Scored,
    asked: Asked,
    setup: Setup,
) -> tuple[Audit, list[Record]]:
    """Return the audit and its records."""
    unit: Unit = "rows" if victim.spec.tabular else "images"
    beyond = [one.attack for one in tried if one.beyond_chance]
    records = findings.records(reached, beyond)
    n, spec = len(records), victim.spec
    threats = findings.threats(tried, n, unit)
    hit, ran = sum(bool(record.attacks) for record in records), sum(one.status is not None for one in tried)
    device = torch.device(setup.device)
    kind = spec.architecture.kind
    read = card.layers or kind == "tail" or (kind == "front" and spec.tells_start)
    assert asked.budget.seconds is not None
    result = Audit(
        name=spec.name,
        unit=unit,
        weights_sha256=victim.card.weights_sha256,
        created_utc=now_utc(),
        headline=words.headline(threats, n, unit, read),
        verdict=words.verdict(threats),
        records_given=n,
        records_trained=spec.n_trained,
        held_out=len(victim.split.test_labels),
        hit=hit if n else None,
        null_hit=findings.hit_by_chance(reached, beyond) if n else None,
        exposure=card,
        threats=threats,
        attempts=list(tried),
        by_class=findings.by_class(records),
        by_margin=findings.by_margin(records),
        overlaps=findings.overlaps(records),
        limits=words.limits(victim, card, threats, tried, share_of(asked.budget, ran)),
        follows=follows(threats, tried, more, spec, asked),
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


def _write(folder: Path, result: Audit, records: Sequence[Record], page: str, rows: pd.DataFrame | None) -> None:
    """Write the page, the data and the table of records; for a model on a table also its rows beside what was found.

    Raises:
        UserError: the folder cannot be written.
    """
    told = [record.model_dump() | {"attacks": " ".join(record.attacks)} for record in records]
    table = pd.DataFrame(told, columns=list(Record.model_fields))
    try:
        write_text(folder / DATA, result.model_dump_json(indent=1))
        write_text(folder / RECORDS, to_csv(table))
        if rows is None:
            (folder / ROWS).unlink(missing_ok=True)  # of an earlier audit
        else:
            write_text(folder / ROWS, to_csv(rows))
        write_text(folder / PAGE, page)
    except OSError as error:
        raise UserError(f"cannot write the audit to {folder} ({error.strerror}); name another --results-dir") from None
