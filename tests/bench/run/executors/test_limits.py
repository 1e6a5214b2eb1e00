"""What the processes of a plan share: together they may use what is free, not each of them."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest

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
