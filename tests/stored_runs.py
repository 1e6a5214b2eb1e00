"""What the tests read of a results folder, and a plain record of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from bench.publish.leaderboard import latest
from bench.publish.runs_table import table_of
from bench.store.cells import to_csv
from bench.store.records import RunRecord, Status

PLAIN: dict[str, Any] = {
    "status": Status.OK,
    "params_hash": "0123456789",
    "params_json": "{}",
    "knowledge": "architecture+weights",
    "tuned_by": "default",
    "dataset": "faces",
    "protocol": "buzaglo2023",
    "device": "cpu",
    "cpu": "Difference Engine",
    "torch": "2",
    "bench_version": "0",
    "started_utc": "2025-01-01T00:00:00+00:00",
}
"""Columns of a run that ended well, which most tests do not look at."""


def stored(results: Path) -> pd.DataFrame:
    return pd.read_csv(results / "runs.csv", keep_default_na=False)


def only_run(results: Path) -> Path:
    (folder,) = (results / "runs").iterdir()
    return folder


def write_runs(root: Path, records: Iterable[RunRecord]) -> None:
    """Write the runs.csv of some records as `write_tables` does, and no leaderboard, which takes most of its time."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "runs.csv").write_text(to_csv(latest(table_of(records))))
