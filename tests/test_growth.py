"""The measurement of growth: what it counts is what a step multiplies, and what is measured is kept."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

SCRIPT = Path(__file__).parent / "benchmarks" / "growth.py"


@pytest.fixture
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_the_floor_is_that_of_a_steps_products(script: dict[str, Any]) -> None:
    point = script["Point"]("n", n=10, m=20, width=30, depth=2)
    n, m, h, r = 10, 20, 30, point.rank
    assert r == 10
    script["measure"].__globals__["ENOUGH_SECONDS"] = 0.0
    device = torch.device("cpu")
    training = script["measure"]("training", point, device)
    forward = 2 * n * (r * h + h * h + h)
    assert training["operations"] == 2 * forward + 2 * n * (h * h + h)  # nothing is asked of the inputs
    attack = script["measure"]("attack", point, device)
    assert attack["operations"] == 2 * m * (5 * r * h + 4 * h * h + 3 * h)
    for row in (training, attack):
        assert row["floor_seconds"] == pytest.approx(row["operations"] / row["operations_per_second"])


def test_what_is_measured_is_not_measured_again(
    script: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int]] = []

    def measure(kind: str, point: Any, device: torch.device) -> dict[str, Any]:
        calls.append((kind, point.width))
        row = {"step": kind, "axis": point.axis, "n": point.n, "m": point.m, "width": point.width, "depth": point.depth}
        return row | {"seconds": 1.0, "floor_seconds": 0.5, "over_floor": 2.0, "peak_mib": 3.0}

    script["main"].__globals__["measure"] = measure
    monkeypatch.setattr("sys.argv", ["growth", "--smoke", "--axis", "width", "--output", str(tmp_path)])
    script["main"]()
    assert calls == [("training", 20), ("attack", 20), ("training", 40), ("attack", 40)]
    assert len(pd.read_csv(tmp_path / "growth.csv")) == 4
    assert (tmp_path / "growth.png").stat().st_size > 1000
    script["main"]()
    assert len(calls) == 4
