"""From a results folder to all that the report says: boards, one entry a cell, failures, machines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bench.publish import ranking
from bench.publish.leaderboard import leaderboard, unscored
from bench.publish.numbers import MISSING, count, number, written
from bench.publish.parameters import settings, summary
from bench.publish.ranking import Board, Cell, Row, cell_of
from bench.publish.report import files
from bench.publish.report.files import RunFiles
from bench.publish.report.former import former, mark
from bench.publish.report.reproduce import remaking
from bench.publish.runs_table import MOST_ROWS, current, has_runs, read_runs, remade
from bench.store.file_names import LOG, REPORT, RUNS_CSV
from bench.store.folders import Store
from bench.store.records import CELL, ONE_TO_ONE, Status
from bench.terminal.text import variant_name
from victims.errors import UserError

MACHINE = ["device", "cpu", "gpu", "torch", "bench_version", "git_commit"]


@dataclass(frozen=True)
class Entry:
    """One cell: an attack with its parameters on a victim.

    Attributes:
        row: its row of the leaderboard.
        name: the attack and its variant.
        settings: parameters that differ from the variant's, in short; "" if none does.
        command: runs it again.
        flags: reasons to read it with care.
        run: the run that stands for it: the one of median `n_good` among those that ended well, None if none did.
        files: that run's files, or what the folder's earlier report shows of it where they are gone.
    """

    row: Row
    name: str
    settings: str
    command: str
    flags: tuple[str, ...]
    run: Row | None
    files: RunFiles

    @property
    def control(self) -> bool:
        """It is a null control itself."""
        return bool(self.row["control"])

    @property
    def label(self) -> str:
        """All that tells it from the other cells of its victim."""
        return f"{self.name} {self.settings}".strip()


@dataclass(frozen=True)
class Failure:
    """A run that did not end well: its row, its attack's name, and its log within the results folder, if it has one."""

    run: Row
    name: str
    log: str


@dataclass(frozen=True)
class Report:
    """What a results folder holds.

    Attributes:
        runs: all rows of runs.csv but those of superseded versions.
        boards: who competes with whom.
        across_knowledge: one board a victim, whatever its attacks were told.
        entries: by cell, in the order of the leaderboard.
        failures: runs that failed or were skipped.
        machines: what runs were made with, and how many.
        learned_metrics: what measured LPIPS and KL, and how many runs.
        problems: files that cannot be read.
    """

    runs: pd.DataFrame
    boards: list[Board]
    across_knowledge: bool
    entries: dict[Cell, Entry]
    failures: list[Failure]
    machines: list[Row]
    learned_metrics: dict[str, list[Row]]
    problems: list[str]


def collect(root: Path, across_knowledge: bool = False, earlier: Sequence[Path] = ()) -> Report:
    """Return what a report shows of a results folder.

    Args:
        root: the folder; only its runs.csv is needed, and report.html is asked for runs whose folders are gone.
        across_knowledge: one board a victim instead of one for each set of knowledge.
        earlier: other reports that are asked for such runs.

    Raises:
        UserError: runs.csv is missing, empty or damaged.
    """
    table = root / RUNS_CSV
    runs = current(read_runs(table, MOST_ROWS)) if table.exists() else pd.DataFrame()
    if not table.exists() and has_runs(root):
        raise UserError(f"{table} is missing; {remade(root)}")
    if runs.empty and (line := unscored(Store(root))):
        raise UserError(line)
    if runs.empty:
        raise UserError(f"no runs in {root} to report; `python -m bench run` makes some, --results-dir names a folder")
    board = leaderboard(runs)
    problems: list[str] = []
    shown = {run: files for page in (*earlier, root / REPORT) for run, files in former(page).items()}
    of_cell = {tuple(map(str, cell)): rows for cell, rows in runs.groupby(list(CELL), sort=False)}
    entries = {
        cell_of(row): _entry(root, row, of_cell[cell_of(row)], shown, problems) for row in board.to_dict("records")
    }
    status_columns = {"LPIPS": "lpips_status", "KL": "kl_status"}
    return Report(
        runs=runs,
        boards=ranking.boards(board, ranking.gains(runs), across_knowledge) if len(board) else [],
        across_knowledge=across_knowledge,
        entries=entries,
        failures=_failures(root, runs),
        machines=_counted(runs, MACHINE),
        learned_metrics={
            name: _counted(runs[runs["status"] == Status.OK], [column]) for name, column in status_columns.items()
        },
        problems=problems,
    )


def _entry(root: Path, row: Row, runs: pd.DataFrame, shown: Mapping[str, RunFiles], problems: list[str]) -> Entry:
    runs = runs[runs["status"] != Status.SKIPPED]
    changed = settings(row["attack"], row["variant"], row["params_json"])
    run = _representative(runs[runs["status"] == Status.OK])
    found = RunFiles()
    if run is not None:
        try:
            found = files.read(root, run["run_id"], run["protocol"]) or shown.get(mark(run), found)
        except UserError as error:
            problems.append(str(error))
            found = shown.get(mark(run), found)
    return Entry(
        row=row,
        name=_name(row),
        settings=summary(row, changed),
        command=remaking(row, runs["seed"].astype(int), changed, runs["victim_seed"].astype(int)),
        flags=tuple(sorted({flag for flags in runs["flags"] for flag in flags.split(";") if flag})),
        run=run,
        files=found,
    )


def _representative(runs: pd.DataFrame) -> Row | None:
    """Return the run of median `n_good`, the lower of two; any run where none has an `n_good`; None without runs."""
    if runs.empty:
        return None
    counted = runs[runs["n_good"].notna()]
    ordered = (runs if counted.empty else counted).sort_values("n_good", kind="stable")
    return ordered.iloc[[(len(ordered) - 1) // 2]].to_dict("records")[0]


def _failures(root: Path, runs: pd.DataFrame) -> list[Failure]:
    found = []
    for run in runs[runs["status"] != Status.OK].to_dict("records"):
        folder = files.folder_of(root, run["run_id"])
        log = folder / LOG if folder else None
        found.append(Failure(run, _name(run), str(log.relative_to(root)) if log and log.exists() else ""))
    return found


def _name(row: Row) -> str:
    name = variant_name(row["attack"], row["variant"])
    return f"{name} in {row['budget']}" if row["budget"] else name


def _counted(runs: pd.DataFrame, columns: list[str]) -> list[Row]:
    """Return the different values of some columns, the most frequent first, with the number of `runs`."""
    counts = runs.groupby(columns).size().sort_values(ascending=False, kind="stable")
    return counts.rename("runs").reset_index().to_dict("records")


def good_count(run: Row) -> str:
    """Return how many training records are good in a run, one to one where it has that count, and how they count."""
    one_to_one, good = (written(run, name, count) for name in (ONE_TO_ONE, "n_good"))
    if one_to_one == MISSING:
        return f"{good} good of {run['n']} under {run['protocol']}"
    return f"{one_to_one} good of {run['n']}, one to one"


def gain_share(row: Row) -> float:
    """Return a row's gain over its null control, one to one, as a share of n, NaN if no null was computed."""
    n = number(row, "n")
    return number(row, "gain") / n if n > 0 else math.nan
