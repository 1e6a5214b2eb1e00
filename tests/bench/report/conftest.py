"""A results folder as the runner leaves it, and its report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from bench.leaderboard import write_tables
from bench.masks import encode
from bench.records import RunRecord, Status
from bench.report import write_report

N = 20
Make = Callable[..., RunRecord]
Write = Callable[..., str]


def ssim_of(good: int, n: int = N) -> np.ndarray:
    """SSIM of n images, `good` of which are above 0.4."""
    return np.concatenate([np.linspace(0.9, 0.5, good), np.linspace(0.3, 0.0, n - good)])


def write_folder(root: Path, record: RunRecord, shape: tuple[int, int, int] = (3, 8, 8)) -> Path:
    """Write a run's folder; its pictures are noise that its seed fixes."""
    folder = root / "runs" / record.run_id
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(record.model_dump_json())
    if record.status is not Status.OK:
        (folder / "log.txt").write_text("Traceback")
        return folder
    ssim, label = ssim_of(record.n_good or 0, record.n), np.arange(record.n) % 2
    output = (2 * label - 1) * np.linspace(1, 3, record.n)
    samples = {"label": label, "output": output, "margin": np.abs(output), "ssim": ssim}
    pd.DataFrame(samples).to_csv(folder / "per_sample.csv", index=False)
    pd.DataFrame({"ssim": np.linspace(0, 0.45, 200)}).to_csv(folder / "held_out.csv", index=False)
    curve = {"confidence": [3, 2, 1], "hit": [1, 0, 1], "precision": [1, 0.5, 2 / 3], "recall": [0.5, 0.5, 1]}
    pd.DataFrame(curve).to_csv(folder / "confidence.csv", index=False)
    images = np.random.default_rng(record.seed).integers(0, 256, (3, 6, *shape), dtype=np.uint8)
    names = ("reconstruction", "truth", "nearest_held_out")
    chosen = np.array([0, 1, N // 2, N // 2 + 1, N - 2, N - 1])
    more = {"image": chosen, "ssim": ssim[chosen].astype(np.float32), "group": np.array([0, 0, 1, 1, 2, 2])}
    save_file(dict(zip(names, images, strict=True)) | more, folder / "examples.safetensors")
    return folder


@pytest.fixture
def scored(record: Make) -> Make:
    """Make records of runs that are scored in full."""

    def make(
        attack: str = "kkt", seed: int = 0, n_good: int = 12, victim: str = "faces-mlp-20", **more: Any
    ) -> RunRecord:
        plain = {
            "run_id": f"{attack}-{victim}-s{seed}-0123456789",
            "n": N,
            "n_good_unique": n_good - 1,
            "null_n_good_unique": 1,
            "null_n_good": 2,
            "gain_over_null": n_good - 2,
            "good_images": encode(ssim_of(n_good) > 0.4),
            "ssim_at_1pct": 0.35,
            "n_good_at_1pct": n_good,
            "ssim_top10": 0.7,
            "confidence_ap": 0.8,
            "hit_rate": 0.1,
            "test_accuracy": 0.75,
            "wall_s": 90.0,
        }
        return record(attack=attack, seed=seed, n_good=n_good, victim=victim, **(plain | more))

    return make


@pytest.fixture
def records(scored: Make) -> list[RunRecord]:
    """Two attacks and a control on two victims; a run that failed and one that was skipped."""
    told = "architecture+class balance+weights"
    failure = {"n_good": None, "good_images": "", "gain_over_null": None, "ssim_top10": None, "wall_s": None}
    return [
        *(scored(seed=seed, n_good=good, knowledge=told, lpips_mean=0.3) for seed, good in enumerate((16, 12, 14))),
        scored("first-layer", n_good=6, wall_s=0.02, ssim_top10=None),
        scored("random", n_good=2, control=True, wall_s=1.0, ssim_top10=0.5, confidence_ap=None),
        scored("kkt", n_good=9, victim="digits-mlp-20", dataset="digits", knowledge=told),
        scored("slow", status=Status.ERROR, reason="OutOfMemoryError: no <more> memory", **failure),
        scored("picky", status=Status.SKIPPED, reason="only likes cats", **failure),
    ]


@pytest.fixture
def folder(results: Path, records: list[RunRecord]) -> Path:
    """The results folder of `records`."""
    for one in records:
        write_folder(results, one)
    write_tables(results, records)
    return results


@pytest.fixture
def page(folder: Path) -> str:
    """The report of `folder`."""
    return write_report(folder).read_text()
