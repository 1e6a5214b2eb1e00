"""The harness runs on the pretend device from the command line to the row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from accelerator import NAME

from bench.plan import options
from bench.store.records import MEASURES

RUNS = {
    "weights": ("-a", "kkt", "--set", "steps=5", "--set", "restarts=1"),
    "queries": ("-a", "inversion", "--variant", "black-box", "--set", "steps=2", "--set", "candidates=4"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_run_there_is_the_row_of_the_cpu(
    name: str,
    pretend: torch.device,
    bench: Callable[..., Any],
    plugins: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(options, "choose_device", lambda name, elsewhere=False: torch.device(name))
    rows = {}
    for device in ("cpu", NAME):
        monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path / device))
        folder = tmp_path / f"results-{device}"
        ended = bench(
            *("run", *RUNS[name], "-v", "faces-mlp-4-tiny", "--plugin-dir", plugins, "--device", device),
            *("--controls", "quick", "--results-dir", folder),
        )
        assert ended.status == 0, ended.err
        (rows[device],) = pd.read_csv(folder / "runs.csv").to_dict("records")
    assert rows[NAME]["device"] == NAME
    assert rows[NAME]["status"] == rows["cpu"]["status"] == "ok"
    for column in MEASURES:
        found, wanted = (rows[device].get(column) for device in (NAME, "cpu"))
        numbers = isinstance(wanted, float)
        assert found == (pytest.approx(wanted, rel=1e-3, nan_ok=True) if numbers else wanted), column
