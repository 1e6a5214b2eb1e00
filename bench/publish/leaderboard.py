"""leaderboard.csv: one row a cell, averaged over seeds and retrainings; and the writing of all tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attacks.base import ORACLE
from bench.publish import board_page
from bench.publish.parameters import columns as parameter_columns
from bench.publish.parameters import readable
from bench.publish.ranking import of_each_seed, own_ranks, samples_and_gains, unsuccessful
from bench.publish.runs_table import VERSIONS, current, defined, read_runs, table_of
from bench.publish.statistics import count_interval, gain_interval
from bench.store.cells import to_csv
from bench.store.file_names import LEADERBOARD_CSV, LEADERBOARD_MD, RUNS_CSV
from bench.store.folders import Store
from bench.store.records import (
    CELL,
    COUNTS,
    OVERLAPPED,
    SCHEMA_VERSION,
    SCORES,
    TUNED_BY_ORACLE,
    RunRecord,
    Status,
)
from bench.terminal.progress import plural
from bench.terminal.text import command
from victims.errors import UserError
from victims.files import write_text

RUN_KEY = [*CELL, *VERSIONS.values(), "victim_seed", "seed", "cpu", "gpu"]
ONE_RUN = ["run_id", *(name for name in RUN_KEY if name != "variant")]
"""What identifies a run whatever its variant: the same parameters may come from a variant or from `--set`."""
MACHINE_RUN = ["run_id", "cpu", "gpu"]
SORT = ["victim", "victim_key", "protocol", "metric_suite", "attack", "variant", "params_hash", "budget"]
SORT += [*VERSIONS.values(), "victim_seed", "seed"]
DESCRIPTION = ["victim", "victim_key", "family", "dataset", "n", "attack", "variant", "params", "params_hash"]
DESCRIPTION += ["params_json", "knowledge", "control", "tuned_by", "budget"]
COUNTED = ["rank", "seeds", "trainings", "failed", "overlapped", "gain", "gain_low", "gain_high"]
COUNTED += ["n_good", "n_good_low", "n_good_high"]
DISTINCT = ["seed", *VERSIONS.values(), "attack_sha", "torch", "bench_version", "git_commit", "device", "cpu", "gpu"]
"""Columns of runs that a row of the leaderboard has in one cell, the different values joined by ";"."""
TOLD = ["schema_version", "weights", "good_images", *DISTINCT]
"""What tells why two leaderboards differ, and how surely: see `_told`."""
TOLD_BY = ["victim_seed", "victim_sha", "failed", "good_images", "n_good", *DISTINCT]
"""Columns of runs that tell it."""
BOARD_COLUMNS = (*DESCRIPTION, "protocol", "metric_suite", *COUNTED, *SCORES[1:], *TOLD)
"""The columns of leaderboard.csv, behind which one for each parameter stands; SCORES begins with n_good."""
WEIGHTS_DIGITS = 12
MEAN_DIGITS = 12
"""Significant digits of a mean. Of the same numbers pandas finds means that differ in their last digits, by the rows
beside them; without this the six digits that are written would differ, too, where a mean lies between two."""


def refresh_tables(store: Store, changed: Iterable[RunRecord] = ()) -> pd.DataFrame:
    """Write the tables from what is stored now, and return the leaderboard; other processes may do the same.

    Args:
        store: the results folder.
        changed: rows of runs.csv, without run folders, as they are to be now.

    Raises:
        UserError: they cannot be written, or those that are there cannot be read.
    """
    try:
        with store.tables():
            return write_tables(store.root, chain(store.records(), changed))
    except OSError as error:
        hint = "make room, or choose another folder with --results-dir"
        raise UserError(f"the tables of {store.root} cannot be written ({error.strerror}); {hint}") from None


def unscored(store: Store) -> str:
    """Return a line on the stored reconstructions that the tables lack for want of scores, "" if there are none."""
    records = [record for record in store.attacked() if record.n and record.pending]
    if not records:
        return ""
    named = {"-a": {record.attack for record in records}, "-v": {record.training for record in records}}
    words = [word for option, names in named.items() for name in sorted(names) for word in (option, name)]
    score = command("score", *words, "--results-dir", str(store.root))
    has, them = ("has", "it") if len(records) == 1 else ("have", "them")
    lacks = f"{plural(len(records), 'stored reconstruction')} {has} no scores, and the tables lack {them}"
    return f"{lacks}; `{score}` makes them (with the --plugin-dir and --data-dir of `run`), unless another is at it"


def write_tables(root: Path, records: Iterable[RunRecord]) -> pd.DataFrame:
    """Write runs.csv, leaderboard.csv and leaderboard.md of a results folder and return the leaderboard.

    Rows that runs.csv already holds and that no record replaces stay: published results are not lost because their
    run folders are elsewhere, nor are rows of a superseded version. A row is replaced if its run was made again here
    and found something. Of rows with the same cell, versions, seed and hardware one stays, as `latest` says. A run
    without images to be reconstructed is in no table.

    Raises:
        UserError: runs.csv is there and cannot be read.
        OSError: one of them cannot be written.
    """
    fresh = table_of(record for record in records if record.n)
    tables = [fresh]
    if (root / RUNS_CSV).exists():
        tables.insert(0, _not_made_again(read_runs(root / RUNS_CSV), fresh))
    runs = latest(pd.concat([table for table in tables if len(table)] or [fresh], ignore_index=True))
    board = leaderboard(runs)
    for name, text in {RUNS_CSV: to_csv(runs), **board_texts(runs, board)}.items():
        write_text(root / name, text)
    return board


def board_texts(runs: pd.DataFrame, board: pd.DataFrame) -> dict[str, str]:
    """Return the texts of leaderboard.csv and leaderboard.md, by name."""
    return {LEADERBOARD_CSV: to_csv(board), LEADERBOARD_MD: board_page.markdown(board)}


def latest(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs without those that a later one replaces, in the order of runs.csv.

    Of runs of the same cell, versions, seeds and hardware one stays: the highest sequence among those that found
    something, or among all if none did. A run is one row under a protocol, whatever variant its parameters came from.
    """
    runs = runs.sort_values(["sequence", "started_utc"], kind="stable", ignore_index=True)
    for key in (RUN_KEY, ONE_RUN):
        found = runs["status"].to_numpy() == Status.OK
        ordered = defined(runs)[key].iloc[np.argsort(found, kind="stable")]
        if (replaced := ordered.duplicated(keep="last")).any():
            runs = runs.drop(index=ordered.index[replaced])
    return runs.sort_values(SORT, kind="stable")


def _not_made_again(rows: pd.DataFrame, fresh: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a runs.csv, without rows of runs that were made again here since and found something."""
    made = fresh[fresh["status"] == Status.OK].groupby(MACHINE_RUN)["sequence"].max()
    since = made.reindex(pd.MultiIndex.from_frame(rows[MACHINE_RUN])).to_numpy(dtype=float)
    return rows[~(rows["sequence"].to_numpy(dtype=float) < since)]


def leaderboard(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row a cell: its description, seeds and failures, and scores averaged over seeds and retrainings.

    Scores are means over the seeds of each training, and then over trainings. A run that failed, or whose scoring
    failed, counts as its null control's score (0 where none was computed) in every count of good images that its cell
    has, and gains nothing over the null; its other scores do not enter the means. Nor does `wall_s` of a run that
    shared the machine, unless all runs of the cell did. Runs are left out that were skipped, that a higher version
    supersedes, that were told what no attacker knows, or whose parameters an oracle chose. Each seed of each
    training counts once, whatever machines ran it (`of_each_seed`): `failed` counts those that failed on all of them,
    `overlapped` those that shared the machine.

    `gain` is the count one to one less the strictest null's, `gain_low` and `gain_high` its 95% interval. `rank` is the
    place by the gain among the attacks that need no more knowledge than the row's; controls have none, nor have rows
    whose gain may be 0. The interval of `n_good` is empty where runs.csv does not tell which images are good. Rows are
    ordered by victim and gain, controls last. Behind `BOARD_COLUMNS` stands a column `param.NAME` for each parameter.
    """
    runs = current(runs)
    told = runs["knowledge"].str.contains(ORACLE, regex=False) | (runs["tuned_by"] == TUNED_BY_ORACLE)
    runs = of_each_seed(runs[(runs["status"] != Status.SKIPPED) & ~told])
    if runs.empty:
        return pd.DataFrame(columns=list(BOARD_COLUMNS))
    counted = _failures_counted(runs)
    groups = counted.groupby("cell", sort=False)
    of_training = counted.groupby(["cell", "victim_seed"], sort=False)[list(SCORES)].mean()
    described = [*CELL, *(name for name in DESCRIPTION if name not in (*CELL, "params"))]
    means = of_training.groupby("cell", sort=False).mean()
    board = groups[described].first().join(means.map(lambda mean: float(f"{mean:.{MEAN_DIGITS}g}")))
    board["seeds"], board["trainings"] = groups.size(), groups["victim_seed"].nunique()
    board[["failed", "overlapped"]] = groups[["failed", "overlapped"]].sum()
    cells = list(zip(*(board[name].astype(str) for name in CELL), strict=True))
    good, gained = samples_and_gains(runs)
    ends = {cell: count_interval(sample) for cell, sample in good.items()}
    spans = {cell: (sample.total, *gain_interval(sample)) for cell, sample in gained.items()}
    board[["n_good_low", "n_good_high"]] = [ends.get(cell, (np.nan,) * 2) for cell in cells]
    board[["gain", "gain_low", "gain_high"]] = [spans.get(cell, (np.nan,) * 3) for cell in cells]
    columns, places = {name: counted[name].tolist() for name in TOLD_BY}, groups.indices
    texts = [_told(columns, places[number], cell in good) for number, cell in zip(board.index, cells, strict=True)]
    board = board.join(pd.DataFrame(texts, index=board.index)).reset_index(drop=True)
    names = board[["attack", "variant", "params_json"]].itertuples(index=False, name=None)
    board["params"] = [readable(*name) for name in names]
    board["rank"] = own_ranks(board, gained)
    board = board[list(BOARD_COLUMNS)].join(parameter_columns(board["params_json"], board.index))
    return board.sort_values(
        ["victim", "victim_key", "protocol", "metric_suite", "control", "gain", "n_good", "attack"],
        ascending=[True, True, True, True, True, False, False, True],
        kind="stable",
    )


def _told(columns: Mapping[str, list[Any]], places: Iterable[int], images_known: bool) -> dict[str, object]:
    """Return the columns of `TOLD` of one cell.

    `weights` has `SEED=HASH` for each training of the victim, `good_images` has `SEED:IMAGES` for each run, the images
    as in runs.csv, or `~COUNT` for a failure that counts as its null control; it is empty where a run lacks them.

    Args:
        columns: `TOLD_BY` of all runs; a table of a cell's own would take a millisecond for each cell.
        places: of the cell's runs.
        images_known: whether no run of the cell lacks its images.
    """
    of = {name: [column[place] for place in places] for name, column in columns.items()}
    weights = {
        f"{seed}={sha[:WEIGHTS_DIGITS]}" for seed, sha in zip(of["victim_seed"], of["victim_sha"], strict=True) if sha
    }
    runs = zip(of["victim_seed"], of["failed"], of["good_images"], of["n_good"], strict=True)
    images = [f"{seed}:{f'~{count:.6g}' if failed else good}" for seed, failed, good, count in runs]
    return {
        "schema_version": SCHEMA_VERSION,
        "weights": ";".join(sorted(weights)),
        "good_images": ";".join(images) if images_known else "",
        **{name: _joined(of[name]) for name in DISTINCT},
    }


def _joined(values: Iterable[Any]) -> str:
    """Return the different values in their order, without empty ones."""
    return ";".join(map(str, sorted({value for value in values if not pd.isna(value)} - {""})))


def _failures_counted(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs with columns for their cell, a number, and for whether they `failed` and `overlapped`.

    Failed ones have the counts that stand for their own. `wall_s` of a run that overlapped others is empty where
    another run of its cell has seconds of its own.
    """
    failed, cells = unsuccessful(runs), runs.groupby(list(CELL), sort=False).ngroup()
    overlapped = runs["flags"].str.contains(OVERLAPPED, regex=False)
    # a cell whose protocol lacks a count has no such count for its failures either
    known = {name: runs[name].notna() & ~failed for name in COUNTS}
    known["wall_s"] = runs["wall_s"].notna() & ~overlapped
    counted = pd.DataFrame(known).groupby(cells).transform("any")
    counted["n_good"] = True
    counts = {}
    for name in COUNTS:
        null = runs[f"null_{name}"]
        counts[name] = runs[name].where(~failed, null.mask(null.isna() & counted[name], 0))
    gain = runs["gain_over_null"].where(~failed, runs["null_n_good"] * 0)
    seconds = runs["wall_s"].where(~overlapped | ~counted["wall_s"])
    runs = runs.assign(cell=cells, failed=failed, overlapped=overlapped)
    return runs.assign(gain_over_null=gain, wall_s=seconds, **counts)
