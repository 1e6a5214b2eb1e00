"""Null controls beside every run, and stored reconstructions scored again without an attack."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from stored_runs import stored

from bench.plan import registry
from bench.plan.run import Run
from bench.run.executors.cluster.needs import controls_of, preparations
from bench.run.nulls.kinds import twins_of
from bench.store.records import COUNTS, NULLS, RunRecord

Bench = Callable[..., Any]


def calls(plugins: Path) -> list[int]:
    """The calls of the tiny attack, in this process."""
    file = str(plugins / "tiny.py")
    found: list[int] = next(m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == file).Tiny.calls
    return found


def record(results: Path) -> RunRecord:
    (path,) = (results / "runs").glob("*/run.json")
    return RunRecord.model_validate_json(path.read_text())


def test_quick_controls_attack_no_twin_and_all_complete_the_row_later(
    run: Bench, results: Path, plugins: Path, cache_dir: Path
) -> None:
    run("-a", "tiny", "--set", "count=4", "--controls", "quick")
    made = len(calls(plugins))
    quick = record(results)
    assert quick.null_untrained is quick.null_disjoint is None
    assert None not in (quick.null_random, quick.null_mean_image, quick.null_held_out)

    run("-a", "tiny", "--set", "count=4")
    assert len(calls(plugins)) == made + 2  # the twins, and not the victim again
    complete = record(results)
    assert (complete.started_utc, complete.n_good) == (quick.started_utc, quick.n_good)
    assert None not in [getattr(complete, name) for name in NULLS]

    run("-a", "tiny", "--set", "count=4", "--seeds", "1")
    assert len(calls(plugins)) == made + 3  # another seed shares the twins
    for path in (cache_dir / "controls").glob("tiny-faces-mlp-4-tiny~*"):
        path.write_bytes(path.read_bytes()[:50])
    again = run("-a", "tiny", "--set", "count=4", "--seeds", "2")
    assert len(calls(plugins)) == made + 6  # a torn file is made again
    assert again.out.count("is damaged") == 2
    assert len(list((cache_dir / "damaged").glob("controls-tiny-faces-mlp-4-tiny~*"))) == 2


def test_the_strictest_null_counts(run: Bench, results: Path) -> None:
    run("-a", "first-layer")
    found = record(results)
    nulls = {name: getattr(found, name) for name in NULLS}
    assert found.null_n_good == max(nulls.values()) == nulls[found.null_control]
    for column in COUNTS:
        assert getattr(found, f"null_{column}") is not None
    assert found.gain_over_null == found.n_good - found.null_n_good


def test_a_control_that_cannot_be_had_is_a_flag(run: Bench, results: Path, plugins: Path) -> None:
    """98 of the 100 faces are trained on: nothing is left for a disjoint twin."""
    code = (
        "from victims.spec import MLPSpec, NormalizedDescent, VictimSpec\n"
        "VICTIMS = (VictimSpec(name='faces-many', dataset='faces', n=196, architecture=MLPSpec(hidden=(8,)),"
        " training=NormalizedDescent(steps=5)),)\n"
    )
    (plugins / "many.py").write_text(code)
    try:
        ended = run("-a", "first-layer", "-v", "faces-many")
        again = run("-a", "first-layer", "-v", "faces-many")
    finally:
        (plugins / "many.py").unlink()
    assert ended.status == 0
    found = record(results)
    assert found.null_disjoint is None
    assert found.null_untrained is not None
    assert "failed_null_disjoint: UserError: faces: n = 196" in found.flags
    assert "stored" in again.out  # it is not tried again and again


def test_a_failed_run_counts_as_its_null(run: Bench, results: Path) -> None:
    run("-a", "raises")
    (row,) = stored(results).to_dict("records")
    assert row["status"] == "error"
    assert int(row["null_n_good"]) == max(
        int(row[name]) for name in ("null_random", "null_mean_image", "null_held_out")
    )


@pytest.fixture
def scored(bench: Bench, plugins: Path, results: Path) -> Bench:
    def call(*args: object) -> object:
        return bench("score", *args, "--device", "cpu", "--plugin-dir", plugins, "--results-dir", results)

    return call


def test_a_new_metric_suite_scores_what_is_stored(
    run: Bench, scored: Bench, results: Path, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("-a", "tiny", "-a", "first-layer")
    made = len(calls(plugins))
    monkeypatch.setattr("bench.scoring.METRIC_SUITE", "next")
    ended = scored("-a", "first-layer")
    assert ended.status == 0
    assert dict(stored(results)[["attack", "metric_suite"]].to_numpy())["first-layer"] == "next"
    assert run("-a", "tiny").status == 0  # `run` does the same for what it is asked for
    assert set(stored(results)["metric_suite"]) >= {"next"}
    assert len(calls(plugins)) == made


def test_scoring_attacks_no_twin_unless_it_is_asked_to(run: Bench, scored: Bench, results: Path, plugins: Path) -> None:
    run("-a", "tiny", "--set", "count=11", "--controls", "quick")
    made = len(calls(plugins))
    assert scored().status == 0
    assert (len(calls(plugins)), record(results).null_disjoint) == (made, None)
    assert scored("--controls", "all").status == 0
    assert len(calls(plugins)) == made + 2
    complete = record(results)
    assert scored().status == 0
    assert [getattr(record(results), name) for name in NULLS] == [getattr(complete, name) for name in NULLS]


def test_another_protocol_is_a_row_of_its_own(run: Bench, scored: Bench, results: Path) -> None:
    run("-a", "first-layer")
    ended = scored("--protocol", "assigned")
    assert (ended.status, ended.err) == (0, "")
    table = stored(results).set_index("protocol")
    assert set(table.index) == {"buzaglo2023", "assigned"}
    assert table.loc["assigned", "n_good"] == table.loc["buzaglo2023", "n_good_assigned"]
    assert table["run_id"].nunique() == 1
    board = pd.read_csv(results / "leaderboard.csv")
    assert sorted(board["protocol"]) == ["assigned", "buzaglo2023"]


def test_a_row_of_another_protocol_keeps_its_own_twins(run: Bench, scored: Bench, results: Path) -> None:
    run("-a", "first-layer", "--controls", "quick")
    assert scored("--protocol", "assigned", "--controls", "all").status == 0
    (path,) = (results / "runs").glob("*/run-assigned.json")
    complete = path.read_text()
    assert scored("--protocol", "assigned").status == 0
    assert path.read_text() == complete
    assert record(results).null_disjoint is None


def test_what_is_scored_is_what_is_stored(run: Bench, scored: Bench, results: Path) -> None:
    run("-a", "first-layer", "--controls", "quick")
    (folder,) = (results / "runs").iterdir()
    path = folder / "reconstruction.safetensors"
    tensors = load_file(path)
    save_file(tensors | {"candidates": torch.zeros_like(tensors["candidates"])}, path)
    scored("--controls", "quick")
    assert record(results).n_good == 0


def test_a_score_that_cannot_be_measured_any_more_does_not_stay(run: Bench, scored: Bench, results: Path) -> None:
    """The row was measured where LPIPS and twins could be had; it is scored again where they cannot."""
    run("-a", "first-layer")
    (path,) = (results / "runs").glob("*/run.json")
    measured = record(results).model_copy(update={"lpips_mean": 0.5, "lpips_status": "measured", "kl_mean": 1.5})
    path.write_text(measured.model_dump_json())
    scored("--controls", "quick")
    again = record(results)
    assert (again.lpips_mean, again.kl_mean) == (None, None)
    assert again.null_disjoint == measured.null_disjoint  # its candidates are kept
    assert again.lpips_status == "not in tests"
    assert (again.n_good, again.wall_s) == (measured.n_good, measured.wall_s)


def alter(path: Path) -> None:
    """Change one bit of a file's last byte."""
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: (folder / "reconstruction.safetensors").unlink(), "cannot be read"),
        (lambda folder: (folder / "reconstruction.safetensors").write_bytes(b"junk"), "is damaged (Error while"),
        (lambda folder: alter(folder / "reconstruction.safetensors"), "does not match its hash"),
        (
            lambda folder: save_file({"candidates": torch.zeros(2, 1, 8, 8)}, folder / "reconstruction.safetensors"),
            "images of another victim",
        ),
    ],
)
def test_a_damaged_reconstruction_is_a_line_to_score_and_a_new_attack_to_run(
    run: Bench, scored: Bench, results: Path, plugins: Path, spoil: object, words: str
) -> None:
    def told(ended: Any) -> list[bool]:
        return [hint in " ".join(ended.out.split()) for hint in ("it is attacked again", "` makes it again")]

    run("-a", "tiny", "--controls", "quick")
    (folder,) = (results / "runs").iterdir()
    spoil(folder)  # type: ignore[operator]
    made = len(calls(plugins))
    ended = scored("--controls", "quick")
    assert ended.status == 1
    assert words in ended.out and told(ended) == [False, True]
    damaged = list((results / "damaged").glob(f"{folder.name}/run.json"))
    assert len(damaged) == ("damaged" in words or "hash" in words)  # set aside with its record, not deleted
    assert "Traceback" not in ended.out + ended.err
    assert len(calls(plugins)) == made
    assert run("-a", "tiny", "--force", "--controls", "quick").status == 0
    spoil(folder)  # type: ignore[operator]
    (folder / "run.json").write_text(
        (folder / "run.json").read_text().replace('"metric_suite": "', '"metric_suite": "0')
    )
    again = run("-a", "tiny", "--controls", "quick")  # it would score again, and finds nothing to score
    assert (again.status, words in again.out, told(again)) == (0, True, [True, False])
    assert len(calls(plugins)) == made + 2


def test_nothing_to_score_and_unknown_names_are_one_line(scored: Bench, run: Bench) -> None:
    assert "no stored run" in scored().err
    assert "no scoring protocol is called 'asigned'; did you mean assigned?" in scored("--protocol", "asigned").err
    run("-a", "tiny", "--controls", "quick")
    other = scored("--protocol", "vero2023")
    assert (other.status, other.err, other.out.count("good")) == (1, "", 0)
    assert "the protocol vero2023 scores rows of tables, and these are images" in other.out


@pytest.mark.parametrize(
    ("attack", "victim", "twins"),
    [
        ("kkt", "cifar-mlp-100", ("untrained", "disjoint")),
        ("kkt-delta", "digits-mlp-20-c10-sgd", ("disjoint",)),  # it is told the start
        ("kernel-query", "digits-krr-20", ("disjoint",)),
        ("glm", "cifar-mlp-100", ()),  # it declines this victim
        ("reconn", "digits-elu10-200", ()),
        ("cocktail-party:checkpoints", "digits-mlp-20-c10-adamw-checkpoints", ("disjoint",)),
        ("cocktail-party:snapshots", "digits-mlp-20-c10-adamw-checkpoints", ("disjoint",)),
    ],
)
def test_the_twins_of_a_run_are_those_that_its_null_controls_attack(
    attack: str, victim: str, twins: tuple[str, ...]
) -> None:
    name, _, variant = attack.partition(":")
    kind = registry.attacks().items[name]
    params = kind.Params(**kind.variants[variant]) if variant else kind.Params()
    run = Run(kind, params, variant, "default", registry.victims().items[victim], 0)
    assert twins_of(run) == twins
    assert len(controls_of(run)) == len(twins)
    assert {one.twin for one in preparations(run, twins=True)} - {""} == set(twins)


def test_an_untrained_network_is_no_null_of_an_attack_that_is_told_the_start(run: Bench, results: Path) -> None:
    run("-a", "kkt-delta", "-v", "digits-mlp-20-c10-sgd", "--set", "steps=2", "--set", "restarts=1")
    row = record(results)
    assert "absent_null_untrained: an untrained network is its own start" in row.flags
    assert row.null_untrained is None
    assert row.null_disjoint is not None
