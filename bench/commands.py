"""The verb `run`: execute a plan, tell the user, and write the tables whatever happens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from bench.plan import Run
from bench.records import RunRecord, Status
from bench.runner import Outcome, Runner
from bench.store import Store
from bench.ui import TerminalReporter, plural

if TYPE_CHECKING:
    import torch

    from attacks.base import Attack


def run_plan(
    plan: Sequence[Run],
    store: Store,
    control: type[Attack[Any]] | None,
    data_dir: Path | None,
    device: torch.device,
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
        runner = Runner(store, control, data_dir, device, reporter, force)
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


def _line(outcome: Outcome) -> str:
    record = outcome.record
    if record.status is not Status.OK:
        return f"{outcome.run.title}: {record.status} ({record.reason})"
    parts = [
        f"good {_against(record.n_good, record.null_n_good)}",
        f"unique {_against(record.n_good_unique, record.null_n_good_unique)}",
        f"haim min {_against(record.n_good_haim_min, record.null_n_good_haim_min)}",
        f"haim mean {_against(record.n_good_haim_mean, record.null_n_good_haim_mean)}",
        f"attack {record.wall_s:.0f} s, training {record.train_s:.0f} s",
    ]
    stored = " (stored; --force runs it again)" if outcome.cached else ""
    return f"{outcome.run.title}: of {record.n} images, {'; '.join(parts)}{stored}"


def _against(count: int | None, null: int | None) -> str:
    return f"{count}" if null is None else f"{count} (null {null})"


def _paths(console: Console, store: Store, record: RunRecord) -> None:
    folder = store.runs / record.run_id
    shown = folder / ("grid.png" if record.status is Status.OK else "log.txt")
    if shown.exists():
        console.print(f"  {shown}", highlight=False, markup=False, soft_wrap=True)
