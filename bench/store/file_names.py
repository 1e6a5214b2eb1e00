"""The names of what a results folder holds: the folders of runs, the files in each, and the tables made from them."""

from __future__ import annotations

RUNS = "runs"
"""The folder of runs; in it each has a folder that is called by its id."""
WORK = ".work"
"""The folder of locks and of what unfinished attacks keep."""
CHECKPOINTS = f"{WORK}/checkpoints"
"""The folder of checkpoints of unfinished attacks, `ID.safetensors` each."""

RECORD = "run.json"
"""A run's own record."""
RECONSTRUCTION, TRACE, LOG = "reconstruction.safetensors", "trace.csv", "log.txt"
"""What an attack returned, its figures over time, and what was printed. No scoring changes them."""
PER_SAMPLE, HELD_OUT, CONFIDENCE = "per_sample.csv", "held_out.csv", "confidence.csv"
"""What scoring found of each training image, of each held-out image, and of each candidate."""
EXAMPLES, GRID = "examples.safetensors", "grid.png"
"""Reconstructions beside their training images: some for the report, and all in one picture."""

RECORDS = f"[!.]*/{RECORD}"
"""Matches runs' own records in the folder of runs. A folder that begins with a dot is being written, or was left so."""
ANY_RECORD = "run*.json"
"""Matches the names of a run's own record, and of one more for every other protocol that it was scored under."""

RUNS_CSV, LEADERBOARD_CSV, LEADERBOARD_MD = "runs.csv", "leaderboard.csv", "leaderboard.md"
"""The tables, which are made of the runs: a row a run; a row a cell; and the boards to be read."""
TABLES = (RUNS_CSV, LEADERBOARD_CSV, LEADERBOARD_MD)
REPORT = "report.html"


def record_name(protocol: str) -> str:
    """Return the name of the file of a run's record under another protocol; of an empty one, of its own record."""
    return f"run-{protocol}.json" if protocol else RECORD
