"""A kill -9 in the middle of a run loses that run and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[2]
PLUGIN = """
from victims.spec import MLPSpec, NormalizedDescent, VictimSpec

SMALL = MLPSpec(hidden=(8, 8))
VICTIMS = (
    VictimSpec(name="faces-quick-4", dataset="faces", n=4, architecture=SMALL, training=NormalizedDescent(steps=40)),
    VictimSpec(name="faces-long-4", dataset="faces", n=4, architecture=SMALL, training=NormalizedDescent(steps=LONG)),
)
"""


def test_kill_in_the_middle_of_a_plan(tmp_path: Path) -> None:
    plugins, results = tmp_path / "plugins", tmp_path / "results"
    plugins.mkdir()
    plugin = plugins / "small.py"
    plugin.write_text(PLUGIN.replace("LONG", "100_000_000"))
    environment = os.environ | {"BENCH_CACHE_DIR": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "bench", "run", "-a", "first-layer", "-v", "faces-quick-4", "-v", "faces-long-4"]
    command += ["--results-dir", str(results), "--plugin-dir", str(plugins)]
    running = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    for line in running.stdout:  # until the second victim is in training
        if line.startswith("train faces-long-4"):
            break
    time.sleep(0.2)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert running.returncode == -signal.SIGKILL
    assert list(pd.read_csv(results / "runs.csv")["victim"]) == ["faces-quick-4"]

    plugin.write_text(PLUGIN.replace("LONG", "50"))
    again = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert "stored" in again.stdout  # the finished run was not run again
    assert set(pd.read_csv(results / "runs.csv")["victim"]) == {"faces-quick-4", "faces-long-4"}
    assert not list((results / "runs").glob(".*"))
