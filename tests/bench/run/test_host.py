"""What the process of a run believes of what the process of an attack says, and what it guards from it."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attacks.context import Budget
from bench.run.failures import AttackFailedError
from bench.run.isolation import host
from bench.run.isolation.host import AttackProcess, IsolatedAttacks, _outcome
from bench.store.records import FAILED, Status


@pytest.mark.parametrize("status", [*Status, "fine", "", 3, None])
def test_no_attack_says_of_itself_that_it_ended_well(status: Any) -> None:
    connection, _ = Pipe()
    process = AttackProcess(1, connection, result=({"what": "failed", "status": status, "reason": "none"}, {}))
    with pytest.raises(AttackFailedError) as caught:
        _outcome(process, 0)
    assert caught.value.failure.status is (status if status in FAILED else Status.ERROR)


def test_a_data_folder_that_is_not_there_costs_no_attack_that_needs_none(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_DATA_DIR", str(tmp_path / "nowhere"))
    assert run("-a", "tiny", "--controls", "quick").status == 0


def test_memory_is_looked_at_once_a_second_and_the_deadline_at_every_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    now, looked = 50.0, list[float]()
    monkeypatch.setattr(host, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(host, "_memory_of_family", lambda pid: looked.append(now) or 0)
    process = AttackProcess(2**22 + 1, Pipe()[0], deadline=53.25)  # no process has this id
    attempt: Any = SimpleNamespace(budget="3s")
    attacks = IsolatedAttacks(Pipe()[0], memory=1)
    while process.killed is None:
        attacks._watch(process, attempt)
        now += 0.125
    attacks.close()
    assert looked == [50.0, 51.0, 52.0, 53.0]
    assert (now, process.killed[0]) == (53.5, Status.TIMEOUT)


@pytest.mark.parametrize(("seconds", "patience"), [(0.5, 10.5), (60.0, 70.0), (3600.0, 3960.0)])
def test_a_long_budget_may_be_exceeded_by_a_tenth_and_a_short_one_by_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, seconds: float, patience: float
) -> None:
    monkeypatch.setattr(host, "time", SimpleNamespace(monotonic=lambda: 50.0))
    process, attacks = AttackProcess(1, Pipe()[0]), IsolatedAttacks(Pipe()[0], memory=1)
    attempt: Any = SimpleNamespace(budget=Budget(seconds=seconds))
    nothing: Any = None
    attacks._handle(process, attempt, ({"what": "begun"}, {}), nothing, nothing)
    attacks.close()
    assert process.deadline == pytest.approx(50.0 + patience)
