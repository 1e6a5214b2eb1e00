"""What the tests read of a results folder."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def stored(results: Path) -> pd.DataFrame:
    return pd.read_csv(results / "runs.csv", keep_default_na=False)


def only_run(results: Path) -> Path:
    (folder,) = (results / "runs").iterdir()
    return folder
