"""The verb `merge`: results folders become one, or a line says what does not fit. Nothing is lost or changed."""

from __future__ import annotations

import filecmp
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from bench.publish.leaderboard import RUN_KEY, latest, write_tables
from bench.publish.report import write_report
from bench.publish.runs_table import MOST_ROWS, defined, read_runs, table_of
from bench.store.cells import to_csv
from bench.store.file_names import REPORT, RUNS, RUNS_CSV, TABLES
from bench.store.folders import Store
from bench.store.overwriting import PAGES
from bench.store.records import Status
from victims.errors import UserError
from victims.files import umask

REMADE = (*TABLES, *PAGES)
"""Files of a results folder that are made from the others; a report keeps what the sources' reports show."""
DERIVED = ("tune/summary.csv", "privacy.csv", "privacy.png")
"""Files that other verbs make of the runs: where two differ, neither describes the joined folder, so none is taken."""
SHOWN = 3
"""Conflicts that the message names; the others are counted."""
TRAINING = ["victim", "victim_seed"]
MEASURED = ["attack", "params_hash", "budget", "protocol", "seed"]
"""Columns that tell the rows of a training apart, whatever its weights and the versions of all."""
RUN = [*TRAINING, *MEASURED]
"""Columns that tell all rows apart, likewise."""


def merge(sources: Sequence[Path], target: Path, replace: bool = False) -> tuple[int, int]:
    """Join results folders into a new one; return the number of its rows in runs.csv and the number of copied files.

    What two folders both hold must be the same: the files of a run, of a study or of a search byte by byte, rows of
    the same cell, versions, seeds and hardware in all columns, and the weights of a victim under one definition. If a
    source has a report, the new folder has one that keeps what theirs show, unless it has more rows than a report may.
    Files that are `DERIVED` are left out where they differ.

    Args:
        sources: results folders, which stay as they are.
        target: a folder that does not exist yet, or is empty.
        replace: whether a folder's runs take the place of the same runs in the folders before it. If a training got
            other weights there, the later folders must hold all its runs: attacks on different weights have no ranks.

    Raises:
        UserError: a source is no results folder, the target holds something, lies in a source, or is a mount or the
            working folder, or something does not fit.
        OSError: the target cannot be written.
    """
    _require_folders(sources, target)
    tables = {source: _rows(source) for source in sources}
    replaced, lacking = _replaced(tables) if replace else ({}, [])
    kept = [runs[~runs["run_id"].isin(replaced.get(source, set()))] for source, runs in tables.items()]
    runs = pd.concat([table for table in kept if len(table)] or kept, ignore_index=True)
    files, problems = _joined_files(sources, replaced)
    problems += [*lacking, *_other_rows(runs), *_other_weights(runs)]
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        twice = not replace and any(problem.startswith("the run ") for problem in problems)
        hint = "; --replace takes the runs of the later folder" if twice else ""
        raise UserError(f"the folders do not fit, and nothing was written: {'; '.join(problems[:SHOWN])}{more}{hint}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
        made = Path(folder) / "merged"
        made.mkdir()
        made.chmod(0o777 & ~umask())
        for place, source in files.items():
            (made / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, made / place)
        (made / RUNS_CSV).write_text(to_csv(latest(runs)), encoding="utf-8")
        write_tables(made, Store(made).records())
        rows = len(read_runs(made / RUNS_CSV))
        if 0 < rows <= MOST_ROWS and (pages := [source / REPORT for source in sources if (source / REPORT).exists()]):
            write_report(made, earlier=pages)
        made.replace(target)
    return rows, len(files)


def _require_folders(sources: Sequence[Path], target: Path) -> None:
    for source in sources:
        if not (source / RUNS_CSV).exists() and not (source / RUNS).is_dir():
            raise UserError(f"{source} is no results folder: it holds no runs.csv and no folder runs")
    if len({source.resolve() for source in sources}) < max(2, len(sources)):
        raise UserError("name two or more different results folders to merge")
    if any(target.resolve().is_relative_to(source.resolve()) for source in sources):
        raise UserError(f"{target} lies in a folder to be merged; name a new folder with --output")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(f"{target} exists and is not empty; name a new folder with --output")
    if target.is_mount() or target.resolve() == Path.cwd():
        raise UserError(f"{target} cannot be replaced by the joined folder; name a new folder in it with --output")


def _rows(source: Path) -> pd.DataFrame:
    """Return the rows of a results folder: those of its table, and those of runs that the table does not have yet."""
    fresh = table_of(record for record in Store(source).records() if record.n)
    if not (source / RUNS_CSV).exists():
        return fresh
    rows = read_runs(source / RUNS_CSV)
    missing = fresh[~fresh["run_id"].isin(rows["run_id"])]
    return pd.concat([rows, missing], ignore_index=True) if len(missing) else rows


def _replaced(tables: dict[Path, pd.DataFrame]) -> tuple[dict[Path, set[str]], list[str]]:
    """Return which runs of each table later tables replace, and what keeps them from replacing others.

    A run is replaced if the later tables have all its rows, and one that ended well only by one that did. It is named
    by its run_id.
    """
    replaced: dict[Path, set[str]] = {source: set() for source in tables}
    ordered, lacking = list(tables.items()), []
    for index, (earlier, old) in enumerate(ordered[:-1], 1):
        again, well = pd.Series(False, old.index), old["status"] == Status.OK
        for _, new in ordered[index:]:
            measured, ended = _found(old, new, RUN), _found(old, new[new["status"] == Status.OK], RUN)
            again |= ended | measured & ~well
        for later, new in ordered[index:]:
            for run_id in old.loc[_found(old, new, RUN) & ~again, "run_id"]:
                lacking.append(f"the run {run_id} ended well in {earlier} and badly in {later}: leave it out there")
            same = _found(old, new, [*TRAINING, "victim_sha"])
            other = _found(old, new, TRAINING) & ~same & (old["victim_sha"] != "")
            for (victim, seed), left in old[other & ~again].groupby(TRAINING):
                where = f"{victim}, victim seed {seed}, has other weights in {later}"
                lacking.append(f"{where}, without all runs of {', '.join(sorted(set(left['attack'])))}")
        replaced[earlier] |= set(old.loc[again, "run_id"]) - set(old.loc[~again, "run_id"])
    return replaced, lacking


def _found(old: pd.DataFrame, new: pd.DataFrame, columns: list[str]) -> pd.Series[bool]:
    """Return for each row of a table whether another table has a row that is equal in some columns."""
    return pd.Series(pd.MultiIndex.from_frame(old[columns]).isin(pd.MultiIndex.from_frame(new[columns])), old.index)


def _joined_files(sources: Sequence[Path], replaced: Mapping[Path, set[str]]) -> tuple[dict[Path, Path], list[str]]:
    """Return the files of all folders by their place, but for replaced runs, and what two folders hold differently."""
    found: dict[Path, Path] = {}
    problems: dict[str, None] = {}
    left = set()
    for source in sources:
        for place in _places(source):
            if place.parts[0] == RUNS and place.parts[1] in replaced.get(source, ()):
                continue
            here = source / place
            before = found.setdefault(place, here)
            if before == here or filecmp.cmp(before, here, shallow=False):
                continue
            if place.as_posix() in DERIVED:
                left.add(place)
            else:
                what = f"the run {place.parts[1]}" if place.parts[0] == RUNS and len(place.parts) > 2 else str(place)
                problems[f"{what} is another one in {source} than in {before.parents[len(place.parts) - 1]}"] = None
    return {place: path for place, path in found.items() if place not in left}, list(problems)


def _places(source: Path) -> Iterator[Path]:
    """Yield the places of a folder's files, behind links too, but for tables and what is being written.

    Raises:
        UserError: a folder cannot be read, or a link leads to a folder that it lies in.
    """
    for folder, inner, names in os.walk(source, onerror=_unread, followlinks=True):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if any(Path(folder).resolve().is_relative_to((Path(folder) / name).resolve()) for name in inner):
            raise UserError(f"{folder} holds a link to a folder that it lies in; remove the link")
        for name in sorted(names):
            place = (Path(folder) / name).relative_to(source)
            if (source / place).is_file() and not name.startswith(".") and str(place) not in REMADE:
                yield place


def _unread(error: OSError) -> None:
    raise UserError(f"{error.filename} cannot be read ({error.strerror}), and nothing was written")


def _other_rows(runs: pd.DataFrame) -> Iterator[str]:
    """Yield the runs of which the tables hold different rows."""
    keyed = defined(runs)
    distinct = keyed[~keyed.astype(str).duplicated()]
    for _, rows in distinct[distinct.duplicated(RUN_KEY, keep=False)].groupby(RUN_KEY, dropna=False):
        texts = rows.astype(str)
        columns = [name for name in texts.columns if texts[name].nunique() > 1]
        yield f"the run {rows['run_id'].iloc[0]} has another {', '.join(columns[:SHOWN])} in another table"


def _other_weights(runs: pd.DataFrame) -> Iterator[str]:
    """Yield the victims that have different weights under one definition."""
    known = runs[(runs["victim_key"] != "") & (runs["victim_sha"] != "")]
    for (_, seed), rows in known.groupby(["victim_key", "victim_seed"]):
        if rows["victim_sha"].nunique() > 1:
            hashes = ", ".join(sorted(sha[:12] for sha in set(rows["victim_sha"])))
            yield f"{rows['victim'].iloc[0]}, victim seed {seed}, has different weights under one definition ({hashes})"
