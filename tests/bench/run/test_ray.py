"""A plan on a Ray cluster on this machine: the same rows as without it, whatever becomes of its workers."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.store.records import COLUMNS

pytest.importorskip("ray", reason="Ray is an extra: pip install 'reconstruction-bench[ray]'")
DEADLY = '''
"""An attack that kills its process: the first time that it meets a seed of 5, and always with a seed of 9."""

import os
import signal
from pathlib import Path

import torch

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction


class Params(AttackParams):
    marks: str


class Deadly(Attack):
    name = "deadly"
    summary = "noise"
    needs = frozenset({Knowledge.ARCHITECTURE})
    Params = Params

    def reconstruct(self, view, ctx):
        seed = ctx.generator.initial_seed()
        mark = Path(self.params.marks) / f"{seed}-{view.architecture.input_shape[1]}"
        if seed == 9 or (seed == 5 and not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return Reconstruction(candidates=torch.randn(4, *view.architecture.input_shape, generator=ctx.generator))
'''
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


@pytest.fixture
def plan(bench: Bench, plugins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run 12 seeds of the deadly attack on two victims, into a folder of the name given."""
    monkeypatch.setenv("BENCH_LPIPS_WEIGHTS", str(tmp_path / "absent"))
    folder, marks = tmp_path / "plugins", tmp_path / "marks"
    folder.mkdir()
    marks.mkdir()
    (folder / "tiny.py").write_text((plugins / "tiny.py").read_text())
    (folder / "deadly.py").write_text(DEADLY)

    def call(name: str, seeds: str, *args: object) -> Any:
        victims = ("-v", "faces-mlp-4-tiny", "-v", "digits-mlp-6-tiny")
        options = ("--set", f"marks={marks}", "--controls", "quick", "--device", "cpu", "--plugin-dir", folder)
        return bench(
            "run", "-a", "deadly", *victims, "--seeds", seeds, *options, "--results-dir", tmp_path / name, *args
        )

    return call


def rows(folder: Path) -> pd.DataFrame:
    table = pd.read_csv(folder / "runs.csv", keep_default_na=False)[SCORES]
    return table.sort_values("run_id").reset_index(drop=True)


def test_a_plan_on_a_cluster_is_that_of_one_machine(
    bench: Bench, plugins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever executes it, a plan has the same rows, that of an attack which fails among them."""
    monkeypatch.setenv("BENCH_LPIPS_WEIGHTS", str(tmp_path / "absent"))
    chosen = ("-a", "first-layer", "-a", "raises", "-v", "digits-mlp-6-tiny", "--controls", "quick")

    def run(name: str, *args: object) -> Any:
        folders = ("--plugin-dir", plugins, "--results-dir", tmp_path / name)
        return bench("run", *chosen, "--device", "cpu", *folders, *args)

    on_ray, here = run("ray", "--executor", "ray"), run("here")
    assert (on_ray.status, here.status) == (1, 1), on_ray.err
    pd.testing.assert_frame_equal(rows(tmp_path / "ray"), rows(tmp_path / "here"))
    assert rows(tmp_path / "ray")["status"].tolist() == ["ok", "error"]


@pytest.mark.slow
def test_a_plan_with_a_worker_killed_is_that_of_one_machine(plan: Bench, tmp_path: Path) -> None:
    on_ray = plan("ray", "0-8,10-12", "--executor", "ray")
    assert on_ray.status == 0, on_ray.err
    assert len(list((tmp_path / "marks").iterdir())) == 2  # two runs lost their worker, and were begun again
    here = plan("here", "0-8,10-12")
    assert here.status == 0, here.err
    assert len(rows(tmp_path / "ray")) == 24
    pd.testing.assert_frame_equal(rows(tmp_path / "ray"), rows(tmp_path / "here"))

    again = plan("ray", "0-8,10-12", "--executor", "ray")
    assert again.out.count("stored; --force") == 24


@pytest.mark.slow
def test_a_run_that_loses_every_worker_is_an_error(plan: Bench, tmp_path: Path) -> None:
    ended = plan("ray", "8-9", "--executor", "ray")
    assert ended.status == 1
    table = pd.read_csv(tmp_path / "ray" / "runs.csv", keep_default_na=False).set_index(["seed", "victim"])
    assert set(table.loc[8, "status"]) == {"ok"}
    assert set(table.loc[9, "status"]) == {"error"}
    assert all("its worker was lost, 2 times" in reason for reason in table.loc[9, "reason"])


def test_an_address_that_does_not_answer_is_one_line(plan: Bench) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    ended = plan("ray", "0", "--executor", "ray", "--ray-address", address)
    assert ended.status == 2
    assert f"--ray-address {address}: nothing answers (Connection refused)" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert "is no address" in plan("ray", "0", "--executor", "ray", "--ray-address", "somewhere").err
