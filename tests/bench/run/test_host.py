"""What the process of a run believes of what the process of an attack says, and what it guards from it."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from bench.run.failures import AttackFailedError
from bench.run.isolation.host import AttackProcess, _outcome
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
