"""The verbs `run` and `score`: execute a plan or score what is stored, tell the user, and write the tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from bench.plan import Run
from bench.records import RunRecord, Status
from bench.runner import Outcome, Runner
from bench.scorer import Scorer
from bench.store import Store
from bench.ui import TerminalReporter, plural
from bench.workshop import Workshop
from victims.errors import UserError

if TYPE_CHECKING:
    import torch

    from attacks.base import Attack
    from bench.registry import Registry
    from victims.informed.spec import AnySpec


def run_plan(
    plan: Sequence[Run],
    store: Store,
    control: type[Attack[Any]] | None,
    data_dir: Path | None,
    device: torch.device,
    *,
    twins: bool,
    force: bool,
) -> int:
    """Execute a plan and return the exit status: 0 if all runs ended well, 1 if one failed.

    Tables are written after every run, so an interrupt or a kill loses the run in progress alone.
    """
    from bench.leaderboard import write_tables

    console = Console()
    write_tables(store.root, store.records())  # a table of another schema is refused before any work is done
    failures = 0
    with TerminalReporter(console) as reporter:
        workshop = Workshop(data_dir, device, reporter)
        runner = Runner(store, workshop, _scorer(store, workshop, control, twins), force)
        for outcome in runner.execute(plan):
            record = outcome.record
            failures += record.status in (Status.ERROR, Status.DIVERGED)
            if not outcome.cached:
                write_tables(store.root, store.records())
            console.print(_line(outcome), highlight=False, markup=False, soft_wrap=True)
            _paths(console, store, record)
    if failures:
        console.print(f"{plural(failures, 'run')} of {len(plan)} failed", style="red")
    return 1 if failures else 0


def score_stored(
    records: Sequence[RunRecord],
    store: Store,
    attacks: Registry[type[Attack[Any]]],
    victims: Registry[AnySpec],
    data_dir: Path | None,
    device: torch.device,
    *,
    protocol: str | None,
    twins: bool,
) -> int:
    """Score stored reconstructions again, write the tables, and return 0, or 1 if one could not be scored."""
    from bench.leaderboard import write_tables

    console = Console()
    failures = 0
    control = next((kind for kind in attacks.items.values() if kind.control), None)
    with TerminalReporter(console) as reporter:
        workshop = Workshop(data_dir, device, reporter)
        scorer = _scorer(store, workshop, control, twins)
        for record in records:
            try:
                run = Run.of(record, attacks, victims)
                victim = workshop.victim(run.victim)
                if victim.card.weights_sha256 != record.victim_sha:
                    raise UserError(f"{record.run_id}: {run.victim.name} has other weights now; run the attack again")
                scored = scorer.score(record, run, victim, protocol)
            except UserError as error:
                failures += 1
                console.print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
                continue
            console.print(_line(Outcome(run, scored, cached=False)), highlight=False, markup=False, soft_wrap=True)
    write_tables(store.root, store.records())
    if failures:
        console.print(f"{plural(failures, 'run')} of {len(records)} could not be scored", style="red")
    return 1 if failures else 0


def _scorer(store: Store, workshop: Workshop, control: type[Attack[Any]] | None, twins: bool) -> Scorer:
    from bench.controls import NullControls

    return Scorer(store, workshop, NullControls(workshop, control, twins))


def _line(outcome: Outcome) -> str:
    record = outcome.record
    if record.status is not Status.OK:
        return f"{outcome.run.title}: {record.status} ({record.reason})"
    parts = [f"good {_against(record.n_good, record.null_n_good)} under {record.protocol}"]
    if record.n_fixed is None:
        parts += [
            f"unique {_against(record.n_good_unique, record.null_n_good_unique)}",
            f"haim min {_against(record.n_good_haim_min, record.null_n_good_haim_min)}",
            f"haim mean {_against(record.n_good_haim_mean, record.null_n_good_haim_mean)}",
            f"at 1% false positives {record.n_good_at_1pct}",
        ]
    elif record.oracle_mse is not None:
        parts.append(f"mean MSE {record.mse_mean:.3g} (nearest known image: {record.oracle_mse:.3g})")
    parts.append(f"attack {record.wall_s:.0f} s, training {record.train_s:.0f} s")
    stored = " (stored; --force runs it again)" if outcome.cached else ""
    return f"{outcome.run.title}: of {record.n} images, {'; '.join(parts)}{stored}"


def _against(count: int | None, null: int | None) -> str:
    return f"{count}" if null is None else f"{count} (null {null})"


def _paths(console: Console, store: Store, record: RunRecord) -> None:
    folder = store.runs / record.run_id
    shown = folder / ("grid.png" if record.status is Status.OK else "log.txt")
    if shown.exists():
        console.print(f"  {shown}", highlight=False, markup=False, soft_wrap=True)
