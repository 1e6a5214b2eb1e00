"""The harness runs on the pretend device from the command line to the row: training, attack, scores, null controls."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from accelerator import NAME, Split

from bench.plan import options
from bench.store.records import MEASURES

RUNS = {
    "weights": ("-a", "kkt", "--set", "steps=5", "--set", "restarts=1", "--controls", "all"),
    "queries": (
        *("-a", "inversion", "--variant", "black-box", "--set", "steps=2", "--set", "candidates=4"),
        *("--controls", "quick"),
    ),
}
QUICK = {"null_random", "null_mean_image", "null_held_out"}
TWINS = {"null_untrained", "null_disjoint"}
FOUND = ("status", "scores", "victim_sha", "test_accuracy", "attack_loss", "grad_evals", "n_candidates")
"""Columns besides the scores that are the same on both devices."""


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
        cache, folder = tmp_path / device, tmp_path / f"results-{device}"
        monkeypatch.setenv("BENCH_CACHE_DIR", str(cache))
        with Split() if device == "cpu" else nullcontext():
            ended = bench(
                *("run", *RUNS[name], "-v", "faces-mlp-4-tiny", "--plugin-dir", plugins, "--device", device),
                *("--results-dir", folder),
            )
        assert ended.status == 0, ended.err
        (rows[device],) = pd.read_csv(folder / "runs.csv").to_dict("records")
        trained = {json.loads(card.read_text())["device"] for card in cache.rglob("card.json")}
        assert trained == {rows[device]["device"]} == {device}
    there, here = rows[NAME], rows["cpu"]
    assert (there["status"], there["scores"]) == ("ok", "scored")
    measured = {column for column in MEASURES if pd.notna(there[column])}
    assert measured & (QUICK | TWINS) == (QUICK if RUNS[name][-1] == "quick" else QUICK | TWINS)
    differing = {column for column in (*MEASURES, *FOUND) if there[column] != here[column]}
    assert not {column for column in differing if pd.notna(there[column]) or pd.notna(here[column])}
