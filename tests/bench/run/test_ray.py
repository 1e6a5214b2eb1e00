"""A plan on a Ray cluster of this machine: the same rows as without it. Faults are tested on a cluster of nodes."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.store.records import COLUMNS

pytest.importorskip("ray", reason="Ray is an extra: pip install 'reconstruction-bench[ray]'")
TIMES = {
    "wall_s",
    "train_s",
    "sequence",
    "started_utc",
    "git_commit",
    "peak_mem_mb",
    "null_control",
    "kl_mean",
    "kl_status",
    "lpips_status",
}
SCORES = [name for name in COLUMNS if name not in TIMES]
"""What has to be the same wherever a run was executed: all but times, memory, and what measured with a download."""
Bench = Callable[..., Any]


def rows(folder: Path) -> pd.DataFrame:
    table = pd.read_csv(folder / "runs.csv", keep_default_na=False)[SCORES]
    return table.sort_values("run_id").reset_index(drop=True)


def test_a_plan_on_a_cluster_is_that_of_one_machine(
    bench: Bench, plugins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever executes it, a plan has the same rows, that of an attack which fails among them.

    One run at a time has one worker, whose server imports torch once. Those that Ray would start beforehand do nothing.
    """
    monkeypatch.setenv("BENCH_LPIPS_WEIGHTS", str(tmp_path / "absent"))
    monkeypatch.setenv("RAY_prestart_worker_first_driver", "0")
    chosen = ("-a", "first-layer", "-a", "raises", "-v", "digits-mlp-6-tiny", "--controls", "quick")

    def run(name: str, *args: object) -> Any:
        folders = ("--plugin-dir", plugins, "--results-dir", tmp_path / name)
        return bench("run", *chosen, "--device", "cpu", *folders, *args)

    on_ray, here = run("ray", "--executor", "ray", "--jobs", 1), run("here")
    assert (on_ray.status, here.status) == (1, 1), on_ray.err
    pd.testing.assert_frame_equal(rows(tmp_path / "ray"), rows(tmp_path / "here"))
    assert rows(tmp_path / "ray")["status"].tolist() == ["ok", "error"]


def test_an_address_that_does_not_answer_is_one_line(bench: Bench, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"

    def run(address: str) -> Any:
        chosen = ("-a", "first-layer", "-v", "faces-mlp-20", "--results-dir", tmp_path / "ray")
        return bench("run", *chosen, "--executor", "ray", "--ray-address", address)

    ended = run(address)
    assert ended.status == 2
    assert f"--ray-address {address}: nothing answers (Connection refused)" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert "is no address" in run("somewhere").err
