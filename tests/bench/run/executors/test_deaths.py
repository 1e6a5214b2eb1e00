"""Scoring that dies, a fork server that is killed, a disk that is full: what was found stays, and the plan goes on."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from rich.console import Console
from world import World

from bench.run.executors.processes import Limits, Processes
from bench.terminal.progress import TerminalReporter

Here = Callable[..., Any]

FAULTY = """
import os
import signal
from pathlib import Path

import bench.scoring.evaluation

evaluate = bench.scoring.evaluation.evaluate


def faulty(protocol, candidates, confidence, reference, *more):
    way = Path(__file__).with_name(f"way-{len(reference.truth.images)}")
    if way.exists():
        exec(way.read_text())
    return evaluate(protocol, candidates, confidence, reference, *more)


bench.scoring.evaluation.evaluate = faulty
"""
DEATHS = {
    2: ("os.abort()", "metric: the process was killed by SIGABRT"),
    4: (
        "os.kill(os.getpid(), signal.SIGKILL)",
        "memory: the process was killed by SIGKILL, as the system does when memory runs out",
    ),
    6: ("raise RuntimeError('a bug in a metric')", "metric: RuntimeError: a bug in a metric"),
    8: ("os._exit(3)", "metric: the process ended in the middle of the run, with exit status 3"),
}
"""What scoring does, by the number of the victim's training images, and what the row says."""


def test_scoring_that_dies_costs_no_reconstruction_and_no_other_run(world: World, here: Here) -> None:
    (world.plugins / "faulty.py").write_text(FAULTY)
    sweep = ("-a", "plain", *(word for n in DEATHS for word in ("-v", f"mini-mlp-{n}")), "--controls", "quick")
    for n, (way, _) in DEATHS.items():
        (world.plugins / f"way-{n}").write_text(way)
    ended = here(world, *sweep)
    assert ended.status == 1, ended.err
    assert "Traceback" not in ended.out + ended.err
    rows = world.rows()
    assert set(rows["status"]) == {"ok"}
    assert rows.set_index("n")["scores_reason"].to_dict() == {n: reason for n, (_, reason) in DEATHS.items()}
    assert (rows["null_n_good"] != "").all()  # as which it counts
    stored = sorted(world.results.glob("runs/*/reconstruction.safetensors"))
    content = [path.read_bytes() for path in stored]
    assert len(stored) == len(DEATHS)
    assert world.calls().count("plain") == len(DEATHS)

    for n in DEATHS:
        (world.plugins / f"way-{n}").unlink()
    ended = here(world, *sweep)
    assert ended.status == 0, ended.err
    assert set(world.rows()["scores"]) == {"scored"}
    assert world.calls().count("plain") == len(DEATHS)
    assert [path.read_bytes() for path in stored] == content


def test_a_killed_fork_server_costs_nothing(world: World, forked: Callable[..., Any]) -> None:
    """What ran is begun again, and the rest of the plan goes on."""
    words = ("-a", "steps", "-v", "mini-mlp-4", "-v", "mini-mlp-6", "--set", "steps=200", "--controls", "quick")
    running = forked(world.environment, *world.command(*words)[3:])
    deadline = time.monotonic() + 120
    while not (world.results / ".work" / "checkpoints").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (server,) = [child for child in psutil.Process(running.pid).children() if "forkserver" in " ".join(child.cmdline())]
    server.send_signal(signal.SIGKILL)
    out, err = running.communicate()
    assert running.returncode == 0, out + err
    assert "Traceback" not in out + err
    assert world.rows()["status"].tolist() == ["ok", "ok"]


def test_a_run_whose_process_is_killed_is_retried_from_its_checkpoint(
    world: World, forked: Callable[..., Any], here: Here
) -> None:
    words = ("-a", "steps", "-v", "mini-mlp-4", "--set", "steps=400", "--controls", "quick")
    running = forked(world.environment, *world.command(*words)[3:])
    checkpoints, deadline = world.results / ".work" / "checkpoints", time.monotonic() + 120
    while not list(checkpoints.glob("steps-*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (server,) = [child for child in psutil.Process(running.pid).children() if "forkserver" in " ".join(child.cmdline())]
    for worker in server.children():
        worker.send_signal(signal.SIGTERM)
    running.communicate()
    (row,) = world.rows().to_dict("records")
    assert (row["status"], row["reason"]) == ("error", "the process was killed by SIGTERM")
    assert len(list(checkpoints.glob("steps-*"))) == 1
    ended = here(world, *words, "--retry-failed")
    assert ended.status == 0, ended.err
    assert world.rows()["status"].tolist() == ["ok"]
    assert list(checkpoints.glob("steps-*")) == []


def test_a_full_results_disk_is_told_in_a_line(world: World, here: Here) -> None:
    """As root on Linux alone: a disk of three megabytes is mounted, filled, and emptied again."""
    disk = world.results
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs leave to mount a tmpfs")
    try:
        words = ("-a", "plain", "-v", "mini-mlp-4")
        assert here(world, *words, "--controls", "quick").status == 0
        (stored,) = disk.glob("runs/*/reconstruction.safetensors")
        content = stored.read_bytes()
        table = (disk / "runs.csv").read_bytes()
        filler = disk / "filler"
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
            while file.write(b"x" * 4096):
                pass
        ended = here(world, *words)
        assert ended.status in (1, 2)
        assert "Traceback" not in ended.out + ended.err
        assert "No space left on device" in ended.out + ended.err
        assert stored.read_bytes() == content
        assert (disk / "runs.csv").read_bytes() == table
        filler.unlink()
        assert here(world, *words).status == 0
        assert stored.read_bytes() == content
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def test_a_server_that_refuses_for_a_while_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed server closes its socket some time before its death can be seen, on a busy machine a second or more."""
    processes = Processes(TerminalReporter(Console()), 1, Limits(1, 2**30))
    refusals: list[Exception] = [ConnectionRefusedError(), ConnectionRefusedError(), EOFError(), ConnectionResetError()]

    def started(*_: object) -> str:
        if refusals:
            raise refusals.pop()
        return "started"

    monkeypatch.setattr(processes, "_started", started)
    assert processes._start(None) == "started"  # type: ignore[arg-type, comparison-overlap]
