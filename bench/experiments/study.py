"""The verb `study`: run the cells of a study, measure where each ended, and write its table and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from rich.console import Console
from torch import Tensor

from attacks.studies.base import Cell, Study
from bench.experiments.naming import naming
from bench.experiments.study_picture import draw, strips
from bench.plan.options import attack_params
from bench.plan.registry import Registry, Victims
from bench.plan.run import Run
from bench.run.artifacts import read_reconstruction
from bench.run.executors.choice import executor_for
from bench.run.executors.task import Task
from bench.run.session import Session
from bench.run.setup import Setup
from bench.run.todo import changed_sources, todo
from bench.scoring.matching import ncc_distance, nearest_neighbours
from bench.scoring.ssim import WANG_WINDOW, ssim_wang, ssim_window3
from bench.store.cells import DIGITS, from_cell, read_cells, to_csv
from bench.store.folders import Store
from bench.store.records import RunRecord, Status
from bench.terminal.console import say
from bench.terminal.progress import TerminalReporter
from victims.base import Victim
from victims.errors import UserError
from victims.files import write_text

if TYPE_CHECKING:
    from pathlib import Path

    from attacks.base import Attack
    from victims.informed.victim import AnyVictim

REALISTIC = 0.4
"""A candidate whose SSIM with some real image is above this looks like one."""
SHOWN = 20


@dataclass(frozen=True)
class Neighbours:
    """For each candidate the training image and the held-out image that are nearest to it.

    Attributes:
        images: (m, C, H, W) candidates in [0, 1], in the order of the attack's confidence where it gives one.
        training: (m, C, H, W) each one's nearest training image by normalised correlation.
        held_out: (m, C, H, W) its nearest held-out image.
        ssim_training: (m,) SSIM with the former.
        ssim_held_out: (m,) SSIM with the latter.
    """

    images: Tensor
    training: Tensor
    held_out: Tensor
    ssim_training: Tensor
    ssim_held_out: Tensor

    @property
    def realistic(self) -> Tensor:
        """(m,) bool: like some real image."""
        return torch.maximum(self.ssim_training, self.ssim_held_out) > REALISTIC

    @property
    def no_member(self) -> Tensor:
        """(m,) bool: realistic, but more like a held-out image than like any training image."""
        return self.realistic & (self.ssim_held_out > self.ssim_training)


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
    lose one. A cell whose victim cannot be had is reported; if it is the first one, that is an error and nothing else
    is tried.

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
            if trouble := outcome.trouble or record.trouble:
                failed = True
                reporter.notice(f"{record.title}: {trouble}")
            row: dict[str, Any] = {"attack": cell.attack, "victim": cell.victim, **cell.labels}
            row |= {"status": str(record.status), "reason": record.reason, "flags": record.flags}
            row |= {"run_id": record.run_id, "n": record.n}
            if record.status is Status.OK and record.n_good is not None:
                row |= measure(store, record, session.victim(run.victim), study, cell)
            rows.append(row)
            write_text(path, to_csv(pd.DataFrame([*rows, *former.values()])))
            described = ", ".join(f"{name} {label}" for name, label in cell.labels.items())
            figures = ", ".join(f"{name} {row[name]:.3g}" for name in MEASURED if row.get(name) is not None)
            text = f"{cell.attack} on {cell.victim}, {described}: {record.status} {figures}"
            say(text, console)
    table = pd.DataFrame(rows)
    write_text(path, to_csv(table))
    for plot in study.plots:
        draw(root, study.name, plot, table)
    say(f"  {path}", console)
    return int(failed)


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


def _run(cell: Cell, attacks: Registry[type[Attack[Any]]], victims: Victims) -> Run:
    """Return the run of a cell."""
    attack = attacks.match([cell.attack])[0]
    return Run(attack, attack_params(attack, "", cell.params), "", "study", victims.match([cell.victim])[0], seed=0)


INFORMED = (
    *("n_good", "n", "mse_mean", "mse_p1", "mse_p10", "mse_p50", "lpips_mean", "kl_mean", "oracle_mse", "beats_oracle"),
    *("null_n_good", "membership_auc", "test_accuracy", "train_s", "wall_s"),
)
"""Columns of a run of the informed adversary that a study's table holds."""
BESIDE = ("mse_to_training", "mse_to_held_out", "realistic", "no_member_rate")
"""What a study's table holds of candidates beside real images."""
TRAINED = ("movement", "start_decay", "directions")
"""What a study's table holds of the card of a victim whose start was kept."""
MEASURED = ("n_good", "test_accuracy", "attack_loss", "mse_mean", *BESIDE, "wall_s")


def measure(store: Store, record: RunRecord, victim: AnyVictim, study: Study, cell: Cell) -> dict[str, float | None]:
    """Return where a run ended, and write the pictures of `_beside_real_images`.

    `attack_loss` is the attack's own objective (the distance in theta, of bilevel); `mse_to_training` and
    `mse_to_held_out` are a candidate's mean squared error to the nearest of those images, averaged over candidates;
    `realistic` is the share of candidates like some real image, `no_member_rate` the share of these that are more like
    a held-out image than like any training image. The counts are the record's, `share_good` and `null_share_good` the
    same as a share of the training images; `share_nearer` is the share that is nearer to its reconstruction than to any
    held-out image, `share_at_1pct` the share above the SSIM that 1% of the held-out images pass. What is said of the
    training is the card's. Rows of a table, and candidates that no held-out image can stand beside, have no columns of
    their neighbours. Of victims of the other settings the columns are `INFORMED`, from the record itself.
    """
    if not isinstance(victim, Victim):
        return {name: getattr(record, name) for name in INFORMED} | naming(record, victim.spec)
    beside: dict[str, float | None] = dict.fromkeys(BESIDE)
    if victim.units is None and len(victim.split.test_inputs):
        beside = _beside_real_images(store, record, victim, study, cell)
    return {
        "attack_loss": record.attack_loss,
        **beside,
        "n_good": record.n_good,
        "n_good_unique": record.n_good_unique,
        "null_n_good": record.null_n_good,
        "null_n_good_unique": record.null_n_good_unique,
        "share_good": None if record.n_good is None else record.n_good / record.n,
        "null_share_good": None if record.null_n_good is None else record.null_n_good / record.n,
        "share_nearer": record.beats_oracle,
        "share_at_1pct": None if record.n_good_at_1pct is None else record.n_good_at_1pct / record.n,
        "train_accuracy": victim.card.train_accuracy,
        "test_accuracy": record.test_accuracy,
        "wall_s": record.wall_s,
    } | {name: value for name in TRAINED if (value := getattr(victim.card, name)) is not None}


def _beside_real_images(
    store: Store, record: RunRecord, victim: Victim, study: Study, cell: Cell
) -> dict[str, float | None]:
    """Return the columns `BESIDE`, and write two pictures of the candidates: alone, and beside their neighbours."""
    split = victim.split
    found = read_reconstruction(store.folder(record.run_id))
    candidates, mean, scale = found.candidates, torch.from_numpy(split.mean), torch.from_numpy(victim.scale)
    order = (
        torch.arange(len(candidates))
        if found.confidence is None
        else found.confidence.nan_to_num(nan=-torch.inf).argsort(descending=True)
    )
    training, held_out = (torch.from_numpy(victim.images(inputs)) for inputs in (split.inputs, split.test_inputs))
    near = neighbours(candidates[order].float() * scale, training, held_out, mean)
    realistic = int(near.realistic.sum())
    alone = store.root / f"{study.name}-{record.run_id}.png"
    title = f"{cell.attack} on {cell.victim}, {', '.join(map(str, cell.labels.values()))}"
    shown = slice(0, SHOWN)
    strips(alone, title, [("candidate", near.images[shown])])
    told = [
        ("candidate", near.images[shown]),
        ("nearest training image", near.training[shown]),
        ("nearest held-out image", near.held_out[shown]),
    ]
    strips(alone.with_suffix(".answer.png"), title, told)
    return {
        "mse_to_training": float(nearest_neighbours(near.images, training)[0].mean()),
        "mse_to_held_out": float(nearest_neighbours(near.images, held_out)[0].mean()),
        "realistic": realistic / len(candidates),
        "no_member_rate": int(near.no_member.sum()) / realistic if realistic else None,
    }


def neighbours(candidates: Tensor, training: Tensor, held_out: Tensor, mean: Tensor) -> Neighbours:
    """Find each candidate's nearest real images.

    Args:
        candidates: (m, C, H, W), images less the mean.
        training: (n, C, H, W) in [0, 1].
        held_out: (k, C, H, W) in [0, 1], k > 0.
        mean: (C, H, W) that the victim subtracts.
    """
    images = (candidates + mean).clamp(0, 1)
    ssim = ssim_wang if min(images.shape[2:]) >= WANG_WINDOW else ssim_window3
    chosen = [real[ncc_distance(real - mean, candidates).argmin(0)] for real in (training, held_out)]
    return Neighbours(images, *chosen, *(ssim(images, real) for real in chosen))
