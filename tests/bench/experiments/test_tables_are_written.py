"""The tables after a sweep that cannot write them any more, or was interrupted."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from stored_runs import stored

from bench.experiments import tables
from bench.run.scorer import Scorer
from bench.store.folders import Store
from bench.store.records import RunRecord
from victims.errors import UserError

Bench = Callable[..., Any]
QUICK = ("-a", "first-layer", "--controls", "quick")


@pytest.fixture
def score(bench: Bench, plugins: Path, results: Path) -> Callable[[], Any]:
    """Score what is stored under another protocol."""
    folders = ("--device", "cpu", "--plugin-dir", plugins, "--results-dir", results)
    return lambda: bench("score", "--controls", "quick", "--protocol", "assigned", *folders)


def full_after(writes: int) -> Callable[[Store], Any]:
    """Write tables as often as the disk allows."""
    left, write = [None] * writes, tables.refresh_tables

    def refresh(store: Store, changed: Sequence[RunRecord] = ()) -> Any:
        if not left:
            raise UserError("the tables cannot be written (No space left on device)")
        left.pop()
        return write(store, changed)

    return refresh


def test_tables_that_lack_runs_at_the_end_are_an_exit_status(
    run: Bench, score: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for verb in (lambda: run(*QUICK), score):
        with monkeypatch.context() as full:
            full.setattr(tables, "refresh_tables", full_after(1))
            ended = verb()
        assert "No space left on device" in ended.out
        assert ended.status == 1
    assert run(*QUICK).status == 0


def test_what_was_interrupted_before_its_scores_is_told_until_it_has_them(
    bench: Bench, run: Bench, plugins: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the run that was interrupted, by another, by the report; and the command that the line names makes them."""

    def interrupted(self: Scorer, *arguments: Any) -> RunRecord:
        raise KeyboardInterrupt

    run(*QUICK, "--seeds", "0")
    with monkeypatch.context() as scoring:
        scoring.setattr(Scorer, "score", interrupted)
        ended = [run(*QUICK, "--seeds", "1")]
        assert run(*QUICK, "--seeds", "2").status == ended[0].status == 130
    told = "1 stored reconstruction has no scores, and the tables lack it; `python -m bench score "
    assert told in ended[0].out
    ended = [run("-a", "random", "--controls", "quick"), bench("report", "--results-dir", results)]
    words = f"python -m bench score -a first-layer -v faces-mlp-4-tiny --results-dir {results}"
    for text in (ended[0].out, ended[1].err):
        lacking = f"2 stored reconstructions have no scores, and the tables lack them; `{words}` makes them"
        assert f"{lacking} (with the --plugin-dir and --data-dir of `run`)" in text
    assert len(stored(results)) == 2
    alone = results.parent / "alone"
    shutil.copytree(results, alone, ignore=shutil.ignore_patterns("*.csv", "first-layer*-s0-*", "random*"))
    (alone / "runs.csv").write_text((results / "runs.csv").read_text().splitlines()[0] + "\n")
    lone = bench("report", "--results-dir", alone)
    assert (lone.status, "2 stored reconstructions have no scores" in lone.err) == (2, True)
    joined = bench("merge", results, alone, "--output", results.parent / "joined")
    assert "2 stored reconstructions have no scores" in joined.err
    made = bench(*words.split()[3:], "--plugin-dir", plugins, "--device", "cpu")
    assert made.status == 0 and len(stored(results)) == 4
    assert "no scores" not in made.out + bench("report", "--results-dir", results).err


def test_an_interrupted_scoring_leaves_the_tables_of_what_is_scored(
    run: Bench, score: Callable[[], Any], results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*QUICK, "--seeds", "0-2")
    done: list[RunRecord] = []
    scored = Scorer.score

    def interrupted(self: Scorer, *arguments: Any) -> RunRecord:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(scored(self, *arguments))
        return done[-1]

    monkeypatch.setattr(Scorer, "score", interrupted)
    assert score().status == 130
    assert sorted(stored(results)["protocol"]) == ["assigned"] * 2 + ["buzaglo2023"] * 3
