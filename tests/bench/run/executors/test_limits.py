"""What the processes of a plan share: together they may use what is free, not each of them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from bench.run.executors import machine
from bench.run.executors.processes import Limits

GIB = 2**30


@pytest.mark.parametrize("jobs", [1, 3, 8])
def test_jobs_share_the_free_memory(monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=24 * GIB, total=64 * GIB))
    assert Limits.shared(jobs, None).memory == 24 * GIB // jobs


def test_memory_that_is_given_is_each_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=24 * GIB, total=64 * GIB))
    assert [Limits.shared(jobs, 2 * GIB).memory for jobs in (1, 8)] == [2 * GIB] * 2


@pytest.mark.parametrize(("jobs", "threads"), [(1, 6), (2, 3), (4, 1), (9, 1)])
def test_jobs_share_the_threads(monkeypatch: pytest.MonkeyPatch, jobs: int, threads: int) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    assert Limits.shared(jobs, None).threads == threads


@pytest.mark.parametrize(("bound", "threads"), [({0}, 1), ({0, 1, 2}, 3), (set(range(16)), 8)])
def test_a_process_that_is_bound_to_some_cpus_has_no_more_threads(
    monkeypatch: pytest.MonkeyPatch, bound: set[int], threads: int
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 8)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: bound, raising=False)
    assert Limits.shared(1, None).threads == threads
    monkeypatch.delattr("os.sched_getaffinity")  # as on macOS
    assert Limits.shared(1, None).threads == 8


@pytest.mark.parametrize(
    ("inner", "outer", "free"),
    [("max", "max", 24), (f"{8 * GIB}", "max", 6), (f"{8 * GIB}", f"{5 * GIB}", 3), (f"{GIB}", "max", 0)],
)
def test_a_control_group_bounds_the_free_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, inner: str, outer: str, free: int
) -> None:
    """Each holds 3 GiB, one of them in files that it has not read lately."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=24 * GIB, total=64 * GIB))
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    monkeypatch.setattr(machine, "OWN_CGROUP", tmp_path / "own")
    (tmp_path / "own").write_text("4:memory:/old\n0::/outer/inner\n")
    for name, most in (("outer", outer), ("outer/inner", inner)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "memory.max").write_text(f"{most}\n")
        (tmp_path / name / "memory.current").write_text(f"{3 * GIB}\n")
        (tmp_path / name / "memory.stat").write_text(f"anon {2 * GIB}\ninactive_file {GIB}\n")
    assert Limits.shared(1, None).memory == free * GIB
