"""A results folder as the runner leaves it, and its report."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file
from stored_runs import PLAIN

from bench.publish.leaderboard import write_tables
from bench.publish.report import write_report
from bench.store.good_images import encode
from bench.store.records import RunRecord, Status

N = 20
UNSCORED = ("n_good", "n_good_unique", "n_good_at_1pct", "gain_over_null", "ssim_top10", "confidence_ap", "wall_s")
Scored = Callable[..., RunRecord]


def ssim_of(good: int) -> np.ndarray:
    """SSIM of N images, `good` of which are above 0.4."""
    return np.concatenate([np.linspace(0.9, 0.5, good), np.linspace(0.3, 0.0, N - good)])


def make_record(attack: str = "kkt", seed: int = 0, n_good: int = 12, **more: Any) -> RunRecord:
    """Return the record of a run that is scored in full."""
    victim = more.pop("victim", "faces-mlp-20")
    plain = {
        **PLAIN,
        "run_id": f"{attack}-{victim}-s{seed}-0123456789",
        "n": N,
        "metric_suite": "2",
        "n_good_unique": n_good - 1,
        "null_n_good_unique": 1,
        "null_n_good": 2,
        "gain_over_null": n_good - 2,
        "good_images": encode(ssim_of(n_good) > 0.4),
        "ssim_at_1pct": 0.35,
        "n_good_at_1pct": n_good,
        "ssim_top10": 0.7,
        "confidence_ap": 0.8,
        "base_rate": 0.1,
        "test_accuracy": 0.75,
        "wall_s": 90.0,
    }
    return RunRecord(attack=attack, seed=seed, n_good=n_good, victim=victim, **(plain | more))


def unscored(record: RunRecord) -> RunRecord:
    """Return the record of a run that was not scored."""
    return record.model_copy(update={**dict.fromkeys(UNSCORED), "good_images": ""})


def make_records() -> list[RunRecord]:
    """Two attacks and a control on two victims; a run that failed and one that was skipped."""
    told = "architecture+class balance+weights"
    reason = "OutOfMemoryError: no <more> memory"
    return [
        *(make_record(seed=seed, n_good=good, knowledge=told) for seed, good in enumerate((16, 12, 14))),
        make_record("first-layer", n_good=6, wall_s=0.02, ssim_top10=None),
        make_record("random", n_good=2, control=True, wall_s=1.0, ssim_top10=0.5, confidence_ap=None),
        make_record("kkt", n_good=9, victim="digits-mlp-20", dataset="digits", knowledge=told),
        unscored(make_record("slow", status=Status.ERROR, reason=reason)),
        unscored(make_record("picky", status=Status.SKIPPED, reason="only likes cats")),
    ]


def write_folder(root: Path, record: RunRecord) -> None:
    """Write a run's folder; its pictures are noise that its seed fixes."""
    folder = root / "runs" / record.run_id
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(record.model_dump_json())
    if record.status is not Status.OK:
        (folder / "log.txt").write_text("Traceback")
        return
    ssim, label = ssim_of(record.n_good or 0), np.arange(N) % 2
    output = (2 * label - 1) * np.linspace(1, 3, N)
    samples = {"label": label, "output": output, "margin": np.abs(output), "ssim": ssim}
    pd.DataFrame(samples).to_csv(folder / "per_sample.csv", index=False)
    pd.DataFrame({"ssim": np.linspace(0, 0.45, 200)}).to_csv(folder / "held_out.csv", index=False)
    curve = {"confidence": [3, 2, 1], "hit": [1, 0, 1], "precision": [1, 0.5, 2 / 3], "recall": [0.5, 0.5, 1]}
    pd.DataFrame(curve).to_csv(folder / "confidence.csv", index=False)
    images = np.random.default_rng(record.seed).integers(0, 256, (3, 6, 3, 8, 8), dtype=np.uint8)
    pictures = dict(zip(("reconstruction", "truth", "nearest_held_out"), images, strict=True))
    chosen = np.array([0, 1, N // 2, N // 2 + 1, N - 2, N - 1])
    more = {"image": chosen, "ssim": ssim[chosen].astype(np.float32), "group": np.array([0, 0, 1, 1, 2, 2])}
    save_file(pictures | more, folder / "examples.safetensors")


@pytest.fixture(scope="session")
def scored() -> Scored:
    """Make records of runs that are scored in full."""
    return make_record


@pytest.fixture(scope="session")
def stored() -> Callable[[Path, RunRecord], None]:
    """Write the folder of a run."""
    return write_folder


@pytest.fixture(scope="session")
def records() -> list[RunRecord]:
    """Two attacks and a control on two victims; a run that failed and one that was skipped."""
    return make_records()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, records: list[RunRecord]) -> Path:
    """The results folder of `records` with its report, which no test changes."""
    root = tmp_path_factory.mktemp("report") / "results"
    for one in records:
        write_folder(root, one)
    write_tables(root, records)
    write_report(root)
    return root


@pytest.fixture
def folder(built: Path, results: Path) -> Path:
    """A copy of `built` without its report."""
    shutil.copytree(built, results, ignore=shutil.ignore_patterns("report.*"))
    return results


@pytest.fixture(scope="session")
def page(built: Path) -> str:
    """The report of `built`."""
    return (built / "report.html").read_text()
