"""The verb `run` as its user sees it: what is stored, what is run again, what fails and what that costs."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from safetensors.torch import load_file
from stored_runs import only_run, stored

from bench.plan import registry
from bench.publish.leaderboard import BOARD_COLUMNS
from bench.run import runner
from bench.store.records import COLUMNS, NULLS, RunRecord

ATTACKED = {"reconstruction.safetensors", "trace.csv"}
SCORED = {"run.json", "per_sample.csv", "held_out.csv", "examples.safetensors", "grid.png"}
LIGHT_KKT = ("-a", "kkt", "--set", "steps=20", "--set", "restarts=1", "--set", "candidates=12")
Bench = Callable[..., Any]


def calls(plugins: Path) -> list[int]:
    counted: list[int] = registry.attacks(plugins).items["tiny"].calls  # type: ignore[attr-defined]
    return counted


def test_the_picture_says_what_chance_gets(run: Bench, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture is shown without its table, and of faces chance may get as many as an attack."""
    monkeypatch.setattr("bench.run.artifacts.grid", lambda path, *_, title: path.with_suffix(".txt").write_text(title))
    assert run("-a", "random").status == 0

    folder = only_run(results)
    record = RunRecord.model_validate_json((folder / "run.json").read_text())
    told = f"{record.n_good} of 4 good, chance {record.null_n_good} (buzaglo2023)"
    assert (folder / "grid.txt").read_text() == f"random on faces-mlp-4-tiny seed 0: {told}"


@pytest.mark.parametrize("attack", [LIGHT_KKT, ("-a", "first-layer"), ("-a", "random")], ids=lambda args: args[1])
def test_run_stores_all_that_a_run_is(run: Bench, results: Path, attack: tuple[str, ...]) -> None:
    ended = run(*attack)

    assert (ended.status, ended.err) == (0, "")
    folder = only_run(results)
    names = {path.name for path in folder.iterdir()}
    assert names - {"confidence.csv"} == ATTACKED | SCORED
    assert str(folder / "grid.png") in ended.out
    record = RunRecord.model_validate_json((folder / "run.json").read_text())
    candidates = load_file(folder / "reconstruction.safetensors")["candidates"]
    assert candidates.shape == (record.n_candidates, 1, 25, 25)
    assert str(candidates.dtype) == "torch.float32"
    assert len(pd.read_csv(folder / "per_sample.csv")) == 4
    assert len(pd.read_csv(folder / "held_out.csv")) == 196
    ranked = "confidence" in load_file(folder / "reconstruction.safetensors")
    assert ranked == ("confidence.csv" in names) == (record.confidence_ap is not None)
    assert not ranked or len(pd.read_csv(folder / "confidence.csv")) == record.n_candidates
    assert {"step", "wall_s"} <= set(pd.read_csv(folder / "trace.csv").columns)
    assert (folder / "grid.png").read_bytes().startswith(b"\x89PNG")
    assert record.run_id == folder.name
    nulls = [getattr(record, name) for name in NULLS]
    assert None not in nulls
    assert record.null_n_good == max(nulls) == getattr(record, record.null_control)
    assert record.gain_over_null == record.n_good - record.null_n_good


def test_a_victim_of_several_classes_is_attacked_and_scored(run: Bench, results: Path) -> None:
    light = ("--set", "steps=20", "--set", "restarts=2", "--set", "candidates=12")
    ended = run("-a", "kkt-multiclass", *light, "-v", "digits-mlp-6-c3")
    assert (ended.status, ended.err) == (0, "")
    (row,) = stored(results).to_dict("records")
    assert (row["status"], row["n_classes"], row["n_candidates"]) == ("ok", 3, 24)
    table = pd.read_csv(only_run(results) / "per_sample.csv")
    assert sorted(table["label"]) == [0, 0, 1, 1, 2, 2]
    assert (table["margin"] > 0).all()

    declined = run("-a", "kkt", "-v", "digits-mlp-6-c3")
    assert "use kkt-multiclass" in declined.out


def test_tables_hold_the_columns_of_the_record(run: Bench, results: Path) -> None:
    run("-a", "first-layer")

    assert tuple(stored(results).columns) == COLUMNS
    board = pd.read_csv(results / "leaderboard.csv")
    assert tuple(board.columns)[: len(BOARD_COLUMNS)] == BOARD_COLUMNS
    assert board[["attack", "seeds", "failed"]].to_numpy().tolist() == [["first-layer", 1, 0]]


def test_a_stored_run_is_not_run_again_unless_forced(run: Bench, results: Path, plugins: Path) -> None:
    before = len(calls(plugins))
    run("-a", "tiny", "--controls", "quick")
    files = {path: path.stat().st_mtime_ns for path in only_run(results).iterdir()}
    tables = [(results / name).read_bytes() for name in ("runs.csv", "leaderboard.csv")]

    again = run("-a", "tiny", "--controls", "quick")
    assert (again.status, len(calls(plugins))) == (0, before + 1)
    assert "--force" in again.out
    assert {path: path.stat().st_mtime_ns for path in only_run(results).iterdir()} == files
    assert [(results / name).read_bytes() for name in ("runs.csv", "leaderboard.csv")] == tables

    forced = run("-a", "tiny", "--controls", "quick", "--force")
    assert (forced.status, len(calls(plugins))) == (0, before + 2)
    changed = {path: path.stat().st_mtime_ns for path in only_run(results).iterdir()}
    assert all(changed[path] > files[path] for path in files)


def test_what_determines_a_result_names_the_run(run: Bench, results: Path) -> None:
    run("-a", "tiny", "--seeds", "0,1")
    run("-a", "tiny", "--set", "count=5")
    run("-a", "tiny", "--variant", "many")

    table = stored(results)
    assert len(table) == len(set(table["run_id"])) == 4
    assert sorted(zip(table["tuned_by"], table["n_candidates"], strict=True)) == [
        ("default", 3),
        ("default", 3),
        ("many", 9),
        ("user", 5),
    ]
    board = pd.read_csv(results / "leaderboard.csv")
    assert sorted(board["seeds"]) == [1, 1, 2]


@pytest.mark.parametrize(
    ("attack", "status", "words"),
    [
        ("raises", "error", "RuntimeError: the wheel came off"),
        ("exits", "error", "SystemExit: had enough"),
        ("nan", "diverged", "no candidate is finite"),
        ("wrong-shape", "error", "expected a tensor (m, 1, 25, 25)"),
        ("no-candidates", "error", "m > 0"),
        ("returns-nothing", "error", "NoneType"),
        ("bad-labels", "error", "list"),
        ("bad-count", "error", "grad_evals is -1; expected a whole number from 0"),
        ("peeks", "error", "'labels'"),
        ("confused", "error", "what is a victim?"),
    ],
)
def test_a_failed_attack_is_a_row_and_the_rest_of_the_plan_runs(
    run: Bench, results: Path, attack: str, status: str, words: str
) -> None:
    ended = run("-a", attack, "-a", "tiny")

    assert ended.status == 1
    assert words in ended.out
    assert "Traceback" not in ended.out + ended.err
    table = stored(results).set_index("attack")
    assert table.loc[attack, "status"] == status
    assert words in table.loc[attack, "reason"]
    assert table.loc["tiny", "status"] == "ok"
    folder = results / "runs" / str(table.loc[attack, "run_id"])
    assert {path.name for path in folder.iterdir()} == {"run.json", "log.txt"}
    assert "Traceback" in (folder / "log.txt").read_text()
    assert [path.name for path in results.rglob(".*")] == [".work"]
    board = pd.read_csv(results / "leaderboard.csv", keep_default_na=False).set_index("attack")
    null = 0 if attack == "confused" else table.loc[attack, "null_n_good"]  # no victim was trained for that one
    assert board.loc[attack, ["seeds", "failed", "n_good"]].astype(float).tolist() == [1, 1, null]


def test_a_failure_is_stored_and_run_again_when_asked(run: Bench, results: Path, plugins: Path) -> None:
    run("-a", "raises")
    before = len(calls(plugins))
    stored_one = run("-a", "raises", "-a", "tiny", "--controls", "quick")
    assert (stored_one.status, len(calls(plugins))) == (1, before + 1)  # the call of tiny
    assert "--retry-failed" in stored_one.out

    retried = run("-a", "raises", "-a", "tiny", "--retry-failed", "--controls", "quick")
    assert (retried.status, len(calls(plugins))) == (1, before + 2)  # tiny did not fail
    assert run("-a", "raises", "--set", "count=2").status == 1  # another cause, another run
    assert len(calls(plugins)) == before + 3
    assert sorted(stored(results)["attack"]) == ["raises", "raises", "tiny"]


def test_a_comment_runs_nothing_again(run: Bench, results: Path, plugins: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    tiny = (plugins / "tiny.py").read_text()
    for name in ("one", "two"):
        (folder / f"{name}.py").write_text(tiny[: tiny.index("class Raises")].replace('"tiny"', f'"{name}"'))
    (folder / "one.py").write_text((folder / "one.py").read_text().replace("zeros(", "ones("))
    run("-a", "one", "-a", "two", "--plugin-dir", folder)
    ids = set(stored(results)["run_id"])
    (folder / "one.py").write_text((folder / "one.py").read_text() + "\n# another thought\n")
    again = run("-a", "one", "-a", "two", "--plugin-dir", folder)

    assert sum("stored; --force" in line for line in again.out.splitlines()) == 2
    assert set(stored(results)["run_id"]) == ids


@pytest.mark.parametrize("attack", ["half-nan", "bad-loss", "vandal"])
def test_an_attack_that_is_merely_odd_is_scored(run: Bench, results: Path, attack: str) -> None:
    run("-a", "tiny")
    ended = run("-a", attack)

    assert ended.status == 0
    table = stored(results).set_index("attack")
    assert table.loc[attack, "status"] == "ok"
    assert table.loc[attack, "attack_loss"] == ""
    assert table.loc[attack, "ssim_mean"] == table.loc["tiny", "ssim_mean"]  # whatever it did to its copies
    lost = "1 of 3 candidates are not finite"
    assert (lost in table.loc[attack, "flags"].split(";")) == (attack == "half-nan")


def test_an_attack_may_decline_a_victim(run: Bench, results: Path, plugins: Path) -> None:
    before = len(calls(plugins))
    ended = run("-a", "picky")

    assert (ended.status, len(calls(plugins))) == (0, before)
    assert "only likes cats" in ended.out
    assert stored(results)[["status", "reason"]].to_numpy().tolist() == [["skipped", "only likes cats"]]
    board = pd.read_csv(results / "leaderboard.csv")
    assert board.empty
    assert tuple(board.columns)[: len(BOARD_COLUMNS)] == BOARD_COLUMNS


def test_an_interrupt_keeps_what_is_finished(run: Bench, results: Path) -> None:
    ended = run("-a", "tiny", "-a", "interrupted", "-a", "picky")

    assert ended.status == 130
    assert ended.err == "bench: interrupted; finished runs are stored, and the same command makes the others\n"
    assert stored(results)["attack"].tolist() == ["tiny"]
    assert only_run(results).name.startswith("tiny-")


def test_flags_tell_how_to_read_a_row(run: Bench, results: Path) -> None:
    run("-a", "tiny", "-v", "digits-mlp-6-tiny")

    assert "not_homogeneous" in stored(results)["flags"][0].split(";")


def test_a_run_is_named_by_the_data_it_downloaded(
    run: Bench, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np
    import torchvision.datasets

    def source(scratch: str, train: bool, download: bool) -> SimpleNamespace:
        images = np.random.default_rng(0).integers(0, 256, (8, 12, 12), dtype=np.uint8)
        return SimpleNamespace(data=images, targets=np.arange(8))

    monkeypatch.setattr(torchvision.datasets, "MNIST", source)
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "own.py").write_text(
        "from victims.spec import *\n"
        "VICTIMS = (VictimSpec(name='mnist-mlp-4', dataset='mnist', n=4, architecture=MLPSpec(hidden=(8,)),"
        " training=NormalizedDescent(steps=20)),)\n"
    )
    arguments = ("-a", "first-layer", "-v", "mnist-mlp-4", "--plugin-dir", folder)
    assert run(*arguments).status == 0
    again = run(*arguments)

    assert "--force" in again.out
    assert only_run(results).name == stored(results)["run_id"][0]


def test_run_json_is_the_row_of_runs_csv(run: Bench, results: Path) -> None:
    run("-a", "tiny")
    row = stored(results).iloc[0]
    stored_json = json.loads((only_run(results) / "run.json").read_text())

    assert set(stored_json) == set(COLUMNS)
    assert all(str(stored_json[name]) == str(row[name]) for name in ("run_id", "attack", "seed", "n_good", "flags"))


def test_a_failure_that_cannot_be_stored_is_told_with_the_reason_for_that(
    run: Bench, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(runner, "write_record", full)
    ended = run("-a", "raises")

    assert ended.status == 2
    assert "No space left on device" in ended.err
    assert "RuntimeError" in ended.err
