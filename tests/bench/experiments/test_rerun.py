"""`verify --rerun`: which runs are made again, and which of their rows a claim is held against."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from bench.experiments import sweep
from bench.experiments.rerun import remeasured
from bench.plan import registry
from bench.publish.claims import Claim, ClaimOutcome, verify
from bench.publish.leaderboard import write_tables
from bench.run.executors import machine
from bench.run.setup import Setup
from bench.store.records import RunRecord
from victims.errors import UserError

GOLDEN = Path(__file__).parents[1] / "store" / "golden"
Make = Callable[..., RunRecord]


def claim(**changes: Any) -> Claim:
    return Claim.model_validate({"text": "kkt gets 3", "where": {"attack": "kkt"}, "values": {"n_good": 3}} | changes)


@pytest.mark.parametrize("schema", sorted(GOLDEN.glob("schema*")))
def test_a_claim_on_a_run_of_an_older_schema_is_measured_again(schema: Path) -> None:
    stated = [claim(table="runs.csv", where={"attack": "first-layer"})]
    _, runs = remeasured(stated, "all", schema, registry.attacks(), registry.victims())
    assert [run.title for run in runs] == ["first-layer on faces-mlp-20 seed 0"]


def test_a_run_is_measured_again_with_its_budget(record: Make, tmp_path: Path) -> None:
    told = {"attack": "first-layer", "params_json": '{"contrast": 0.5}', "victim": "faces-mlp-20"}
    rows = [record(run_id=text, budget=text, **told) for text in ("600s", "3steps", "")]
    write_tables(tmp_path, rows)
    stated = [claim(table="runs.csv", where={"run_id": row.run_id}) for row in rows]
    kept, runs = remeasured(stated, "all", tmp_path, registry.attacks(), registry.victims())
    assert {str(run.budget) for run in runs} == {"600s", "3steps", ""}

    made = [row.model_copy(update={"params_hash": runs[0].params_hash, "run_id": f"new{row.run_id}"}) for row in rows]
    write_tables(tmp_path, made)
    assert [finding.outcome for finding in verify(kept, tmp_path)] == [ClaimOutcome.HOLDS] * 3


def test_a_quick_claim_that_cannot_be_run_again_is_told(record: Make, tmp_path: Path) -> None:
    stated = [claim(tier=tier, where={"attack": "kkt", "victim": "no-such-victim"}) for tier in ("quick", "all")]
    counts: dict[Literal["quick", "all"], int] = {"quick": 1, "all": 2}
    for tier, count in counts.items():
        kept, runs = remeasured(stated, tier, tmp_path, registry.attacks(), registry.victims())
        assert not runs
        assert [one.unsupported.startswith("cannot be run again: no victim") for one in kept] == [True] * count


def test_a_training_that_takes_no_time_is_quick(record: Make, tmp_path: Path) -> None:
    told = {"attack": "first-layer", "params_json": '{"contrast": 0.5}', "victim": "faces-mlp-20", "train_s": 0.0}
    write_tables(tmp_path, [record(**told)])
    stated = [claim(where={"attack": "first-layer", "victim": "faces-mlp-20"})]
    _, runs = remeasured(stated, "quick", tmp_path, registry.attacks(), registry.victims())
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("weights", "n_good", "outcome"),
    [
        ("a", 66, ClaimOutcome.HOLDS),
        ("a", 63, ClaimOutcome.FAILS),
        ("b", 63, ClaimOutcome.HOLDS),
        ("b", 53, ClaimOutcome.HOLDS),
        ("b", 52, ClaimOutcome.FAILS),  # 1.96 sqrt(2 * 100 * .66 * .34) = 13.1
        ("b", 80, ClaimOutcome.FAILS),
    ],
)
def test_on_other_weights_a_count_holds_within_chance(
    record: Make, tmp_path: Path, weights: str, n_good: int, outcome: ClaimOutcome
) -> None:
    told = {"attack": "first-layer", "params_json": '{"contrast": 0.5}', "victim": "faces-mlp-20", "n": 100}
    write_tables(tmp_path, [record(n_good=66, victim_sha="a" * 64, **told)])
    boards = claim(where={"attack": "first-layer", "victim": "faces-mlp-20"}, values={"n_good": 66})
    stated = [boards, boards.model_copy(update={"table": "runs.csv"})]
    kept, runs = remeasured(stated, "all", tmp_path, registry.attacks(), registry.victims())

    again_made = {"params_hash": runs[0].params_hash, "victim_sha": weights * 64}
    write_tables(tmp_path / "again", [record(n_good=n_good, **(told | again_made))])
    assert [finding.outcome for finding in verify(kept, tmp_path / "again")] == [outcome] * 2


@pytest.mark.parametrize(("null", "outcome"), [(11, ClaimOutcome.HOLDS), (12, ClaimOutcome.FAILS)])
def test_on_other_weights_a_null_holds_within_chance(
    record: Make, tmp_path: Path, null: int, outcome: ClaimOutcome
) -> None:
    """Laplace's rule makes 6 of 102 of 5 of 100: 1.96 sqrt(2 * 100 * (6 / 102) (96 / 102)) = 6.5."""
    write_tables(tmp_path, [record(victim_sha="b" * 64, n_good=20, null_n_good=null, n=100)])
    stated = claim(values={"null_n_good": 5}).model_copy(update={"weights": frozenset({"a" * 64})})
    assert [finding.outcome for finding in verify([stated], tmp_path)] == [outcome]


def test_on_other_weights_only_counts_have_an_allowance(record: Make, tmp_path: Path) -> None:
    write_tables(tmp_path, [record(victim_sha="b" * 64, ssim_mean=0.5, n=100)])
    stated = claim(values={"ssim_mean": 0.51}).model_copy(update={"weights": frozenset({"a" * 64})})

    assert [finding.outcome for finding in verify([stated], tmp_path)] == [ClaimOutcome.FAILS]


def test_a_run_that_fails_when_it_is_made_again_is_an_exit_status(
    bench: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object) -> None:
        raise RuntimeError("the wheel came off")

    monkeypatch.setattr(registry.attacks().items["glm"], "reconstruct", fails)
    where = '[[claim]]\ntext = "glm"\nwhere = { attack = "glm", victim = "cancer-logistic" }\nvalues = { n_good = 9 }\n'
    (tmp_path / "claims.toml").write_text(where)
    words = ("--results-dir", tmp_path, "--rerun-dir", tmp_path / "again", "--device", "cpu")
    ended = bench("verify", "--rerun", "all", *words)
    assert "0 does not hold, 1 not comparable" in ended.out
    assert ended.status == 1


@pytest.mark.parametrize(
    ("words", "gibibytes", "jobs"),
    [
        (("--device", "cpu"), 64, 3),
        (("--device", "cpu"), 9, 2),
        (("--device", "cpu"), 1, 1),
        (("--device", "cpu", "--jobs", "2"), 64, 2),
        (("--device", "cpu", "--jobs", "0"), 64, 0),
        (("--device", "cuda"), 64, 1),
    ],
)
def test_runs_are_made_again_on_a_core_each(
    bench: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    gibibytes: int,
    jobs: int,
) -> None:
    """As most stored rows were made: threads round in another order, which moves a long search."""
    seen = list[int]()

    def execute(plan: object, setup: Setup) -> None:
        seen.append(setup.jobs)
        raise UserError("enough")

    monkeypatch.delenv("BENCH_JOBS", raising=False)
    monkeypatch.setattr(machine, "cores", lambda: 3)
    monkeypatch.setattr(machine, "free_memory", lambda: gibibytes << 30)
    monkeypatch.setattr(sweep, "execute_plan", execute)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    where = '[[claim]]\ntext = "glm"\nwhere = { attack = "glm", victim = "cancer-logistic" }\nvalues = { n_good = 9 }\n'
    (tmp_path / "claims.toml").write_text(where)
    assert bench("verify", "--rerun=all", "--results-dir", tmp_path, "--rerun-dir", tmp_path / "x", *words).status == 2
    assert seen == [jobs]
