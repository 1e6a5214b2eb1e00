"""A new score replaces the old one as a whole: no column of a row is left of what an earlier scoring said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored_runs import only_run, stored

from bench.store.possible import MASKS
from bench.store.records import COLUMNS, MEASURES, SCORES, RunRecord, ScoreState

OWN = {
    *("run_id", "sequence", "status", "reason", "log", "attack", "variant", "params_hash", "params_json"),
    *("attack_version", "attack_sha", "victim_version", "victim_key", "victim_seed", "victim_sha", "family"),
    *("knowledge", "tuned_by", "budget", "victim", "dataset", "n", "n_fixed", "n_classes", "seed"),
    *("protocol", "n_candidates", "attack_loss", "wall_s", "train_s", "test_accuracy", "grad_evals", "peak_mem_mb"),
    *("device", "cpu", "gpu", "torch", "bench_version", "git_commit", "started_utc"),
}
"""Columns that say what was run and what it cost, whatever its scores are; each column is one of these or rewritten."""
STALE: dict[Any, Any] = {str: "stale", bool: True, int: 98, float: 98.5, ScoreState: ScoreState.FAILED}
Bench = Callable[..., Any]


def stale(name: str) -> Any:
    """A value that no scoring gives a column."""
    if name in MASKS:
        return ""
    kind = RunRecord.model_fields[name].annotation
    return next(value for type_, value in STALE.items() if kind in (type_, type_ | None))


@pytest.fixture
def rescored(run: Bench, bench: Bench, plugins: Path, results: Path) -> Callable[..., tuple[RunRecord, RunRecord]]:
    """Store a run whose rows hold what an earlier scoring is supposed to have said; return it, and scored again."""

    def call(changes: dict[str, Any]) -> tuple[RunRecord, RunRecord]:
        run("-a", "first-layer", "--controls", "quick")
        path = only_run(results) / "run.json"
        before = RunRecord.model_validate_json(path.read_text()).model_copy(update=changes)
        path.write_text(before.model_dump_json())
        folders = ("--device", "cpu", "--plugin-dir", plugins, "--results-dir", results)
        assert bench("score", "--controls", "quick", *folders).status == 0
        return before, RunRecord.model_validate_json(path.read_text())

    return call


def test_no_old_score_stays_and_nothing_else_changes(rescored: Callable[..., tuple[RunRecord, RunRecord]]) -> None:
    flags = "budget;failed_kl: it was not a number"
    schema = {"schema_version": 1, "metric_suite": "0", "flags": flags}
    judged = {name: stale(name) for name in COLUMNS if name not in {*OWN, *schema}}
    numbers = {name: stale(name) for name in OWN if RunRecord.model_fields[name].default is None}
    before, after = rescored(schema | judged | numbers)
    assert {name for name in judged if getattr(after, name) == getattr(before, name)} == set()
    assert after.flags == "budget"
    assert {name for name in schema if getattr(after, name) == schema[name]} == set()
    assert {name for name in OWN if getattr(after, name) != getattr(before, name)} == set()


def test_every_number_that_scoring_measures_is_on_the_board() -> None:
    numbers = {name for name, field in RunRecord.model_fields.items() if field.default is None}
    assert numbers - OWN == set(MEASURES) < set(SCORES)


def test_a_run_that_is_made_again_has_no_row_of_another_protocol_any_more(
    run: Bench, bench: Bench, plugins: Path, results: Path
) -> None:
    run("-a", "first-layer", "--controls", "quick")
    folders = ("--device", "cpu", "--plugin-dir", plugins, "--results-dir", results)
    assert bench("score", "--controls", "quick", "--protocol", "assigned", *folders).status == 0
    assert sorted(stored(results)["protocol"]) == ["assigned", "buzaglo2023"]
    assert run("-a", "first-layer", "--controls", "quick", "--force").status == 0
    assert stored(results)["protocol"].tolist() == ["buzaglo2023"]


def test_what_was_found_in_other_weights_is_not_scored_on_these(
    run: Bench, bench: Bench, plugins: Path, results: Path
) -> None:
    words = ("-a", "first-layer", "--controls", "quick")
    run(*words)
    path = only_run(results) / "run.json"
    record = RunRecord.model_validate_json(path.read_text())
    elsewhere = record.model_copy(update={"victim_sha": "f" * 64, "metric_suite": "0"}).model_dump_json()
    path.write_text(elsewhere)
    folders = ("--device", "cpu", "--plugin-dir", plugins, "--results-dir", results)
    for ended in (run(*words), bench("score", "--controls", "quick", *folders)):
        assert ended.status == 1
        assert "faces-mlp-4-tiny has other weights now than this run attacked; `run --force` runs it" in ended.out
        assert path.read_text() == elsewhere
    assert run(*words, "--force").status == 0
    assert run(*words).status == 0
