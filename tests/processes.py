"""The command line in a process of its own: what it is asked for, and what it finds around it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """A cache in a folder, one thread, no download, and nothing of the user's but what `more` names."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_")}
    own = {"BENCH_CACHE_DIR": str(folder / "cache"), "BENCH_LPIPS_WEIGHTS": "absent.pth"}
    return given | own | {"OMP_NUM_THREADS": "1", "COLUMNS": "250"} | more


def bench_run(plugins: Path, results: Path, *words: object) -> list[str]:
    folders = ["--plugin-dir", str(plugins), "--results-dir", str(results), "--device", "cpu"]
    return [sys.executable, "-m", "bench", "run", *map(str, words), *folders]
