"""The measurement of growth: what it counts is what a step multiplies, and what is measured is kept."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from functools import partial
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

    def clock(work: Callable[[], object], device: torch.device) -> float:
        """k steps take 2 + k / 2 seconds, any other work as long as one step."""
        work()
        return 2 + 0.5 * work.args[0] if isinstance(work, partial) else 2.5

    script["measure"].__globals__.update(seconds=clock, ENOUGH_SECONDS=6.0)
    device = torch.device("cpu")
    training = script["measure"]("training", point, device)
    forward = 2 * n * (r * h + h * h + h)
    assert training["operations"] == 2 * forward + 2 * n * (h * h + h)  # nothing is asked of the inputs
    attack = script["measure"]("attack", point, device)
    assert attack["operations"] == 2 * m * (5 * r * h + 4 * h * h + 3 * h)
    parted = script["measure"]("attack in parts", point, device)
    assert parted["operations"] == 2 * m * (7 * r * h + 7 * h * h + 6 * h)  # forward twice more, and back once more
    for row in (training, attack, parted):
        assert row["seconds"] == pytest.approx(0.5)
        assert row["operations_per_second"] == pytest.approx(2 * script["RATE_SIDE"]["cpu"] ** 3 / 2.5)
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


@pytest.fixture
def model() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT.with_name("growth_model.py")))


def planted(model: dict[str, Any]) -> pd.DataFrame:
    """Points whose seconds and bytes are a known sum: 1.5 times the products, 2 ns a byte of activations, 3 ms."""
    sizes = [(n, h, depth) for n in (50, 300, 1000, 3000) for h in (200, 900) for depth in (1, 3)]
    table = pd.DataFrame(sizes, columns=["n", "width", "depth"]).assign(step="attack", operations_per_second=1e10)
    table["m"] = 2 * table["n"]
    size, held = 4 * model["activations"](table), 4 * model["weights"](table)
    table["seconds"] = 1.5 * model["operations"](table) / 1e10 + 2e-9 * size + 3e-3
    return table.assign(peak_mib=(7 * size + 2 * held + 1e6) / 2**20)


def test_the_model_finds_what_was_planted_and_foretells_larger_points(model: dict[str, Any]) -> None:
    table = planted(model)
    fit = model["fitted"](table, table)
    assert fit.time == pytest.approx([1.5, 2e-9, 3e-3], rel=1e-6)
    assert fit.memory == pytest.approx([7, 2, 1e6], rel=1e-6)
    told = model["quality"](table)
    assert told["largest above n=1000"].max() < 1e-9


def test_the_errors_that_the_readme_tells_are_those_of_the_stored_points(model: dict[str, Any]) -> None:
    text = (SCRIPT.parent / "README.md").read_text()
    told = model["quality"](pd.read_csv(SCRIPT.parents[2] / "results" / "growth" / "growth.csv"))
    for step, part in told.groupby("step"):
        time, memory = (part[part["of"] == of].iloc[0, 3:] for of in ("time", "memory"))
        cells = (f"{value:.0%}" for value in (*time, *memory))
        assert f"| {step} | {' | '.join(cells)} |" in text


def test_the_models_products_are_those_that_were_counted(model: dict[str, Any]) -> None:
    """The counted ones have the last layer of one output too, which is 3 of some 10 h terms at the least width."""
    table = pd.read_csv(SCRIPT.parents[2] / "results" / "growth" / "growth.csv")
    assert model["operations"](table).to_numpy() == pytest.approx(table["operations"].to_numpy(), rel=0.01)


def test_what_is_split_over_devices_is_reduced_among_them(model: dict[str, Any]) -> None:
    table = planted(model)
    alone, split = (model["reckoned"](table, devices, 1e12, 1e11, 1e10, 2e10) for devices in (1, 8))
    assert alone["s reduction"].eq(0).all()
    assert (split["s products"] * 8).to_numpy() == pytest.approx(alone["s products"].to_numpy())
    passes = (
        2e-9
        * 4
        * model["activations"](pd.DataFrame([{"step": "attack", "n": 5e4, "m": 7e4, "width": 1000, "depth": 2}]))
    )
    assert alone["s passes"].iloc[1] == pytest.approx(float(passes.iloc[0]) * 2e10 / 1e11)
    h, r = 1000, 1000
    assert split["s reduction"].iloc[1] == pytest.approx(2 * 7 / 8 * 4 * h * (r + h) / 1e10)
