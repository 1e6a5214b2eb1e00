"""Rows whose run folders are elsewhere get what their attack gets of twins, and nothing else of them changes."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from stored_runs import PLAIN, stored, write_runs

from bench.experiments.sweep import without_twins
from bench.experiments.tables import SweepTables
from bench.plan import registry
from bench.publish.runs_table import read_runs, records_of, table_of
from bench.run.executors.task import Task, work
from bench.run.failures import Failure
from bench.run.nulls.later import LATER, _stricter, lacks_twins
from bench.run.provenance import run_of
from bench.run.setup import Setup
from bench.store.folders import Store
from bench.store.good_images import encode
from bench.store.records import COUNTS, NULLS, RunRecord, Status
from bench.terminal.progress import TerminalReporter

Bench = Callable[..., Any]
TWINS = ["null_untrained", "null_disjoint"]


def row(results: Path) -> RunRecord:
    (found,) = records_of(read_runs(results / "runs.csv"))
    return found


@pytest.fixture
def score(bench: Bench, plugins: Path, results: Path) -> Bench:
    def call(*options: str) -> Any:
        return bench("score", *options, "--device", "cpu", "--plugin-dir", plugins, "--results-dir", results)

    return call


def test_a_row_without_its_folder_gets_the_twins_that_a_complete_run_has(
    run: Bench, score: Bench, results: Path, cache_dir: Path
) -> None:
    run("-a", "first-layer")
    complete = row(results)
    shutil.rmtree(results)
    run("-a", "first-layer", "--controls", "quick")
    quick = row(results)
    shutil.rmtree(results / "runs")
    for path in (cache_dir / "controls").glob("first-layer*"):
        path.unlink()

    assert score("--controls", "all").status == 0
    found = row(results)
    told = dict(item.split(": ", 1) for item in found.flags.split(";") if item.startswith("null_"))
    assert told == dict.fromkeys(TWINS, LATER)
    columns = [*NULLS, "null_control", "null_images", "gain_over_null", *(f"null_{name}" for name in COUNTS)]
    assert [getattr(found, name) for name in columns] == [getattr(complete, name) for name in columns]
    others = [name for name in RunRecord.model_fields if name not in {*columns, "flags"}]
    assert [getattr(found, name) for name in others] == [getattr(quick, name) for name in others]
    assert not (results / "runs" / found.run_id).exists()
    assert without_twins(Store(results), registry.attacks()) == []


def test_quick_controls_another_protocol_and_other_names_leave_it(run: Bench, score: Bench, results: Path) -> None:
    run("-a", "first-layer", "--controls", "quick")
    shutil.rmtree(results / "runs")
    before = (results / "runs.csv").read_text()
    for options in ((), ("--controls", "all", "--protocol", "haim2022-min"), ("--controls", "all", "-a", "kkt")):
        assert "no stored run" in score(*options).err
    assert (results / "runs.csv").read_text() == before


@pytest.mark.parametrize("changes", [{"attack_version": 0}, {"protocol": "mine"}, {"attack": "gone"}])
def test_rows_that_cannot_be_what_they_were_are_left_out(
    changes: dict[str, Any], run: Bench, score: Bench, results: Path
) -> None:
    run("-a", "first-layer", "--controls", "quick")
    shutil.rmtree(results / "runs")
    write_runs(results, [row(results).model_copy(update=changes)])
    assert "no stored run" in score("--controls", "all").err
    assert stored(results)["null_disjoint"].tolist() == [""]


def test_a_row_of_a_victim_that_has_another_definition_now_is_told_and_stays(
    run: Bench, score: Bench, results: Path
) -> None:
    run("-a", "first-layer", "--controls", "quick")
    shutil.rmtree(results / "runs")
    write_runs(results, [row(results).model_copy(update={"victim_key": "0" * 16})])
    ended = score("--controls", "all")
    assert ended.status == 1
    assert "another definition now" in ended.out + ended.err
    assert stored(results)["null_disjoint"].tolist() == [""]


def test_a_twin_that_was_lost_is_made_up_and_the_other_stays_as_it_is(
    run: Bench, score: Bench, results: Path, cache_dir: Path
) -> None:
    run("-a", "first-layer")
    complete = row(results)
    assert complete.null_disjoint is not None
    shutil.rmtree(results / "runs")
    flags = "budget;lost_null_disjoint: killed"
    lacking = {"null_untrained": 77, "null_disjoint": None, "flags": flags}
    write_runs(results, [complete.model_copy(update=lacking)])
    assert score("--controls", "all").status == 0
    found = row(results)
    assert (found.null_untrained, found.null_disjoint) == (77, complete.null_disjoint)
    assert found.flags == f"budget;null_disjoint: {LATER}"


def test_a_twin_that_there_is_not_is_told_once(run: Bench, results: Path) -> None:
    run("-a", "first-layer", "--controls", "quick")
    absent = "absent_null_untrained: there is none;absent_null_disjoint: there is none"
    assert not lacks_twins(row(results).model_copy(update={"flags": absent}))
    assert lacks_twins(row(results).model_copy(update={"flags": absent.partition(";")[0]}))
    assert not lacks_twins(row(results).model_copy(update={"metric_suite": "0"}))


def test_tables_take_a_changed_row_once_and_no_run_that_is_not_stored(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.experiments.tables.WRITING_SHARE", math.inf)  # every change is written at once
    store, reporter = Store(results), TerminalReporter(Console(quiet=True))
    write_runs(results, [record()])
    with reporter, SweepTables(store, reporter) as tables:
        tables.follow(record(run_id="lost"))
        tables.change(record(null_disjoint=1))
        tables.follow(record(run_id="lost"))
        assert row(results).null_disjoint == 1
        write_runs(results, [record(null_disjoint=1, null_untrained=4)])  # as another process does
        tables.follow(record(run_id="lost"))
    assert row(results).null_untrained == 4


def record(**changes: Any) -> RunRecord:
    had = {
        **PLAIN,
        **{"run_id": "r", "attack": "a", "victim": "v", "metric_suite": "2", "seed": 0, "n": 6, "n_good": 5},
        **{f"null_{name}": 2 for name in COUNTS},
        **{
            "null_control": "null_random",
            "null_random": 2,
            "gain_over_null": 3,
            "null_images": encode([1, 1, 0, 0, 0, 0]),
        },
    }
    return RunRecord.model_validate(had | changes)


def added(good: list[int], **counts: int) -> dict[str, Any]:
    columns = {"null_disjoint": sum(good), "null_control": "null_disjoint", "null_images": encode(np.array(good, bool))}
    return columns | {f"null_{name}": counts.get(name, sum(good)) for name in COUNTS} | {"gain_over_null": 0}


def test_of_each_count_the_strictest_null_stays() -> None:
    lower = _stricter(record(), added([0, 0, 0, 0, 0, 1]))
    assert lower["null_disjoint"] == 1
    assert {lower[f"null_{name}"] for name in COUNTS} == {2}
    assert lower["gain_over_null"] == 3
    assert {"null_control", "null_images"}.isdisjoint(lower)

    alike = _stricter(record(), added([0, 0, 0, 0, 1, 1]))
    assert {"null_control", "null_images"}.isdisjoint(alike)

    higher = _stricter(record(), added([0, 0, 0, 1, 1, 1], n_good_assigned=1))
    assert (higher["null_control"], higher["gain_over_null"]) == ("null_disjoint", 2)
    assert higher["null_images"] == encode([0, 0, 0, 1, 1, 1])
    assert (higher["null_n_good"], higher["null_n_good_assigned"]) == (3, 2)


def test_what_could_not_be_had_changes_no_count() -> None:
    assert _stricter(record(), {}) == {}
    bare = record(null_n_good=None, null_control="", null_images="")
    assert _stricter(bare, added([0, 0, 0, 0, 0, 0]))["null_control"] == "null_disjoint"


def test_a_row_whose_process_died_stays_as_it_was(results: Path) -> None:
    had = record(attack="first-layer", victim="faces-mlp-100", params_json="{}")
    task = Task.of(
        run_of(had, registry.attacks(), registry.victims()), had.run_id, Setup(results, None, None, "cpu", True)
    )
    died = replace(task, row=had, failure=Failure(Status.OOM, "killed"))
    with TerminalReporter(Console(quiet=True)) as reporter:
        outcome = work(died, reporter)
    assert (outcome.record, outcome.trouble) == (had, "killed")
    assert not (results / "runs").exists()


def test_rows_are_records_and_records_rows(run: Bench, results: Path) -> None:
    run("-a", "first-layer", "--controls", "quick")
    runs = read_runs(results / "runs.csv")
    pd.testing.assert_frame_equal(table_of(records_of(runs)), runs, check_dtype=False)
