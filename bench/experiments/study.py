"""The verb `study`: run the cells of a study, measure where each ended, and write its table and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console

from attacks.studies.base import Cell, Study
from bench.experiments.measured import MEASURED, measure
from bench.experiments.study_picture import draw
from bench.plan.options import attack_params
from bench.plan.registry import Registry, Victims
from bench.plan.run import Run
from bench.run.executors.choice import executor_for
from bench.run.executors.task import Task
from bench.run.session import Session
from bench.run.setup import Setup
from bench.run.todo import changed_sources, todo
from bench.store.cells import DIGITS, from_cell, read_cells, to_csv
from bench.store.folders import Store
from bench.store.records import RunRecord, Status
from bench.terminal.console import say
from bench.terminal.progress import TerminalReporter
from victims.errors import UserError
from victims.files import write_text

if TYPE_CHECKING:
    from pathlib import Path

    from attacks.base import Attack


def part_of(study: Study, results_dir: Path, smoke: bool) -> tuple[Sequence[Cell], Path]:
    """Return the cells of a study, or its few and cheap ones, and the folder that they go to."""
    cells, name = (study.smoke, f"{study.name}-smoke") if smoke else (study.cells, study.name)
    return cells, results_dir / "studies" / name


def run_study(
    study: Study,
    cells: Sequence[Cell],
    attacks: Registry[type[Attack[Any]]],
    victims: Victims,
    setup: Setup,
    missing: bool = False,
) -> int:
    """Run the cells, write NAME.csv after each and pictures at the end, and return the exit status: 1 if a cell failed.

    Rows of a former NAME.csv stay until their cells are made again, so that neither an interruption nor absent data
    lose one; a row with measures stays if its cell now ends without. A cell whose victim cannot be had is reported; if
    it is the first one, that is an error and nothing else is tried.

    Args:
        study: the study.
        cells: its runs, or some.
        attacks: all that are known.
        victims: likewise.
        setup: where runs are read and written: not in the results folder, since experiments whose start an oracle
            gives are on no board; and how they are executed, one after the other.
        missing: keep the rows of NAME.csv whose runs ended well and are scored, with or without their run folders and
            data, and run only the other cells.

    Raises:
        UserError: an attack, a victim or a parameter is not known, the folder cannot be written, NAME.csv is there and
            cannot be read, or the victim of the first cell cannot be had.
    """
    console, root = Console(), setup.results_dir
    store = Store(root)
    store.require_writable()
    failed, rows, path = False, list[dict[str, Any]](), root / f"{study.name}.csv"
    former = former_rows(path, cells)
    with TerminalReporter(console) as reporter:
        session = Session(setup, reporter)
        runs = [_run(cell, attacks, victims) for cell in cells]
        for line in changed_sources(todo(runs, setup, session), session):
            reporter.notice(line)
        executor = executor_for(reporter, setup)
        for cell, run in zip(cells, runs, strict=True):
            run_id, before = session.run_id(run), former.pop(_identity(cell), {})
            # without its data a cell has another id than its row
            same = before.get("run_id") == run_id or not session.definition(run.victim)
            if missing and same and _measured(before):
                rows.append(before)
                continue
            (outcome,) = executor.execute([Task.of(run, run_id, setup)])
            record = outcome.record
            if not outcome.stored:
                if not rows:
                    raise UserError(record.reason)
                failed = True
                reporter.notice(f"{record.title}: {record.reason}")
                rows += [before] if before else []
                continue
            row = _row(cell, record)
            if record.status is Status.OK and record.n_good is not None:
                row |= measure(store, record, session.victim(run.victim), study, cell)
            trouble = outcome.trouble or record.trouble
            if _measured(before) and not _measured(row):
                row, trouble = before, f"{trouble or f'{record.status}: {record.reason}'}; its former row stays"
            if trouble:
                failed = True
                reporter.notice(f"{record.title}: {trouble}")
            rows.append(row)
            write_text(path, to_csv(pd.DataFrame([*rows, *former.values()])))
            say(_line(cell, row), console)
    table = pd.DataFrame(rows)
    write_text(path, to_csv(table))
    for plot in study.plots:
        draw(root, study.name, plot, table)
    say(f"  {path}", console)
    return int(failed)


def redraw(study: Study, cells: Sequence[Cell], root: Path) -> None:
    """Draw the pictures of a study from NAME.csv in its folder `root`; run nothing, and leave the table as it is.

    Raises:
        UserError: there is no such table, it cannot be read, it has no row of a cell of the study, or the folder cannot
            be written.
    """
    path = root / f"{study.name}.csv"
    rows = former_rows(path, cells)
    if not rows:
        raise UserError(f"{path} has no row of this study, so there is nothing to draw; run the study first")
    try:
        for plot in study.plots:
            draw(root, study.name, plot, pd.DataFrame(list(rows.values())))
    except OSError as error:
        raise UserError(f"the pictures of {root} cannot be written ({error.strerror})") from None
    say(f"  {root}", Console())


def former_rows(path: Path, cells: Sequence[Cell]) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the row of each cell in a table that a study wrote, in the order of the cells; none if there is no table.

    A row belongs to the cell with its attack, victim and labels; run ids will not do, for they change with versions and
    with absent data.

    Raises:
        UserError: the file is there and is no such table.
    """
    if not path.exists():
        return {}
    texts = read_cells(path)
    if lacking := [name for name in ("attack", "victim", "status", "run_id") if name not in texts]:
        raise UserError(f"{path} is no table of a study: it has no column {lacking[0]}; move it away")
    table = pd.read_csv(path, keep_default_na=False, na_values=[""])
    read = table.map(lambda cell: from_cell(cell) if isinstance(cell, str) else cell).to_dict("records")
    rows = dict[tuple[str, ...], dict[str, Any]]()
    for cell in cells:
        identity = _identity(cell)
        names = ("attack", "victim", *cell.labels)
        if row := next((row for row in read if tuple(_label(row.get(name)) for name in names) == identity), None):
            rows[identity] = {str(name): value for name, value in row.items()} | cell.labels
    return rows


def _measured(row: dict[str, Any]) -> bool:
    """Whether a row of a former table is of a run that ended well and has its scores, if there is what to score."""
    return row.get("status") == Status.OK and (row.get("n") == 0 or bool(pd.notna(row.get("n_good"))))


def _identity(cell: Cell) -> tuple[str, ...]:
    """Return what tells a cell from the others of its study."""
    return tuple(map(_label, (cell.attack, cell.victim, *cell.labels.values())))


def _label(value: object) -> str:
    """Return a label as a table holds it, whichever type it has been read as."""
    try:
        return f"{float(str(value)):.{DIGITS}g}"
    except ValueError:
        return str(value or "nan")


def _row(cell: Cell, record: RunRecord) -> dict[str, Any]:
    """Return the row of a cell as far as its record tells it, before anything is measured."""
    named = {"attack": cell.attack, "victim": cell.victim, **cell.labels}
    ended = {"status": str(record.status), "reason": record.reason, "flags": record.flags}
    return {**named, **ended, "run_id": record.run_id, "n": record.n}


def _line(cell: Cell, row: dict[str, Any]) -> str:
    """Return how a cell ended, by its row."""
    described = ", ".join(f"{name} {label}" for name, label in cell.labels.items())
    figures = ", ".join(f"{name} {row[name]:.3g}" for name in MEASURED if row.get(name) is not None)
    return f"{cell.attack} on {cell.victim}, {described}: {row['status']} {figures}"


def _run(cell: Cell, attacks: Registry[type[Attack[Any]]], victims: Victims) -> Run:
    """Return the run of a cell."""
    attack = attacks.match([cell.attack])[0]
    return Run(attack, attack_params(attack, "", cell.params), "", "study", victims.match([cell.victim])[0], seed=0)
