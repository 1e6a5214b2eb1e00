"""Text in the cells of a table that a spreadsheet may open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.trial import create_trial

from bench.experiments.tuning.table import read_trials, write_trials
from bench.publish.leaderboard import write_tables
from bench.publish.runs_table import read_runs
from bench.store.cells import read_cells, to_csv
from bench.store.good_images import encode
from bench.store.records import RunRecord

Make = Callable[..., RunRecord]
BENCH = Path(__file__).parents[3] / "bench"


def test_a_formula_in_a_table_is_text_and_comes_back_as_it_was(record: Make, tmp_path: Path) -> None:
    formula = '=HYPERLINK("http://example.org")'
    write_tables(tmp_path, [record(variant=formula, reason="'=2", cpu="-1")])
    write_tables(tmp_path, [])  # reads what it wrote, and writes it again
    (run,) = read_runs(tmp_path / "runs.csv").to_dict("records")

    assert (run["variant"], run["reason"], run["cpu"]) == (formula, "'=2", "-1")
    for name in ("runs.csv", "leaderboard.csv"):
        assert "'=HYPERLINK" in (tmp_path / name).read_text()
        assert ",=" not in (tmp_path / name).read_text()


@pytest.mark.parametrize("text", ["one\rtwo", "\rone", "one\r\ntwo\r"])
def test_a_carriage_return_ends_no_row(record: Make, tmp_path: Path, text: str) -> None:
    write_tables(tmp_path, [record(run_id="one", reason=text), record(run_id="two", seed=1)])
    found = read_runs(tmp_path / "runs.csv")

    assert found["run_id"].tolist() == ["one", "two"]
    assert found["reason"][0] == text.replace("\r\n", "\n").replace("\r", "\n")


def test_a_whole_number_keeps_its_digits_beside_an_empty_cell() -> None:
    table = pd.DataFrame({"count": [1_234_567, None], "share": [1_234_567.5, None], "far": [1e300, None]})
    assert to_csv(table).splitlines()[1:] == ["1234567,1.23457e+06,1e+300", ",,"]


def test_a_failure_of_a_trial_is_no_formula(tmp_path: Path) -> None:
    attributes = {"reason": "=1+1", "loss": -0.5, "n_good": 2, "seconds": 1.23456789}
    space = {"start": CategoricalDistribution(["=a", "b"])}
    write_trials(
        tmp_path, [create_trial(value=1.0, params={"start": "=a"}, distributions=space, user_attrs=attributes)]
    )

    assert (tmp_path / "trials.csv").read_text().splitlines()[1] == "-1,failed,-0.5,2,1.23457,'=1+1,'=a"
    assert read_trials(tmp_path / "trials.csv")["loss"].tolist() == [-0.5]


def test_every_table_is_written_by_one_function() -> None:
    writers = {path.name for path in BENCH.rglob("*.py") if ".to_csv(" in path.read_text()}
    assert writers == {"cells.py"}


def test_a_cell_that_tells_many_images_is_read(bench: Callable[..., Any], record: Make, tmp_path: Path) -> None:
    n = 300_000
    found = {"n": n, "good_images": encode([True] * n)}
    for name, seeds in (("old", (0, 1)), ("new", (0, 2))):
        write_tables(tmp_path / name, [record(seed=seed, **found) for seed in seeds])
    assert len(read_cells(tmp_path / "old" / "leaderboard.csv")["good_images"][0]) > 131_072
    ended = bench("compare", *(tmp_path / name / "leaderboard.csv" for name in ("old", "new")))
    assert (ended.status, ended.err) == (0, "")
