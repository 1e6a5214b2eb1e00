"""The budget on the command line, and what is done for a plan: run, keep, skip, retry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from stored_runs import stored

from bench.plan.options import parse_budget, parse_memory
from victims.datasets import sources
from victims.errors import UserError

Bench = Callable[..., Any]
LIGHT = ("-a", "kkt", "--set", "steps=30", "--set", "restarts=4", "--set", "candidates=8", "--controls", "quick")


@pytest.mark.parametrize(
    ("text", "same"),
    [
        *(("", ""), ("90s", "90s"), ("10m", "600s"), ("1.5h", "5400s"), (".5s", "0.5s"), ("500steps", "500steps")),
        *(("300h", "1080000s"), ("277777.5h", "999999000s"), ("1234567.5s", "1234567.5s"), ("1000000000s",) * 2),
        *(("0.00002s", "0.00002s"), (".000000000000001s", "0.000000000000001s")),
    ],
)
def test_a_budget_is_read_and_written(text: str, same: str) -> None:
    assert str(parse_budget(text)) == same
    assert parse_budget(same) == parse_budget(text)


@pytest.mark.parametrize("text", ["0s", "10", "m", "-5s", "1.5steps", "0steps", "5 parsecs", "nan", "1e3s", "s10"])
def test_what_is_no_budget_is_one_line(run: Bench, text: str) -> None:
    ended = run("-a", "tiny", f"--budget={text}")
    assert ended.status == 2
    assert "no budget; write 90s, 10m" in ended.err


def test_memory_is_read() -> None:
    assert [parse_memory(text) for text in ("500m", "8g", "1.5GB")] == [500 * 2**20, 2**33, 3 * 2**29]
    for text in ("8", "g", "0g", "-1g"):
        with pytest.raises(UserError, match="no amount of memory"):
            parse_memory(text)


def test_a_run_that_spent_its_budget_is_marked_and_apart(run: Bench, results: Path) -> None:
    assert run(*LIGHT).status == 0
    assert run(*LIGHT, "--budget", "40steps").status == 0
    assert run(*LIGHT, "--budget", "4000steps").status == 0
    assert "--force" in run(*LIGHT, "--budget", "40steps").out

    rows = stored(results).set_index("budget")
    assert len(set(rows["run_id"])) == 3
    assert rows["n_candidates"].to_dict() == {"": 32, "40steps": 8, "4000steps": 32}
    assert ["budget" in flags.split(";") for flags in rows.loc[["", "40steps", "4000steps"], "flags"]] == [0, 1, 0]
    board = pd.read_csv(results / "leaderboard.csv", keep_default_na=False)
    assert sorted(board["budget"]) == ["", "4000steps", "40steps"]
    assert "`kkt` in 40steps" in (results / "leaderboard.md").read_text()


def test_a_dry_run_says_what_is_stored_new_and_skipped(run: Bench, results: Path) -> None:
    run("-a", "tiny", "-a", "raises", "--controls", "quick")
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    words = ("-a", "tiny", "-a", "raises", "-a", "picky", "--seeds", "0-1", "--dry-run")
    lines = {line.split("│")[0].strip(): line for line in run(*words, "--controls", "quick").out.splitlines()}

    def tells(attack: str, seed: int, *expected: str) -> bool:
        return all(words in lines[f"{attack} on faces-mlp-4-tiny seed {seed}"] for words in expected)

    assert tells("tiny", 0, "stored")
    assert tells("tiny", 1, " run ")
    assert tells("raises", 0, "stored", "error: RuntimeError", "--retry-failed")
    assert tells("picky", 1, " run ", "skipped: only likes cats")
    full = {line.split("│")[0].strip(): line for line in run(*words).out.splitlines()}
    asked_for_twins = full["tiny on faces-mlp-4-tiny seed 0"]
    assert "score again" in asked_for_twins and "it lacks null_untrained" in asked_for_twins
    assert {path: path.read_bytes() for path in results.rglob("*") if path.is_file()} == before


def test_a_dry_run_needs_no_folder_to_write_to(bench: Bench, plugins: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()  # no folder can be made in it, not by root either
    for folder in (tmp_path / "file" / "results", tmp_path / "absent"):
        words = ("-a", "tiny", "-v", "faces-mlp-4-tiny", "--plugin-dir", plugins, "--results-dir", folder)
        assert bench("run", *words, "--dry-run").status == 0
    assert not (tmp_path / "absent").exists()


def test_a_dry_run_downloads_nothing_and_says_what_would_be(
    run: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def download(name: str, path: Path) -> None:
        pytest.fail(f"a dry run downloads {name}")

    monkeypatch.setattr("victims.datasets.sources._download", download)
    monkeypatch.setenv("BENCH_DATA_DIR", str(tmp_path))
    (tmp_path / "own.py").write_text(
        "from victims.spec import *\nVICTIMS = (VictimSpec(name='mnist-mlp-4', dataset='mnist', n=4),)\n"
    )
    words = ("-a", "first-layer", "-a", "class-mean", "-a", "glm", "-v", "mnist-mlp-4", "--plugin-dir", tmp_path)
    ended = run(*words, "--dry-run")

    assert ended.status == 0
    assert ended.out.count("dataset mnist is absent; it is downloaded first") == 2
    told = "the plan: 2 runs to make, 0 stored; no stored run tells how long; 1 skipped, for the attack does not"
    assert told in ended.out
    assert ended.out.count("skipped: the attack seeks the one record that the attacker does not know") == 1
    assert not (tmp_path / "mnist.npz").exists()


def test_only_cached_executes_nothing(run: Bench, results: Path) -> None:
    run("-a", "tiny", "--controls", "quick")
    before = stored(results)
    ended = run("-a", "tiny", "--seeds", "0-2", "--only-cached")
    assert ended.status == 0
    assert "2 runs of 3 not stored" in ended.out and "runs.csv has 1 row\n" in ended.out
    told = run("-a", "tiny", "--seeds", "0-2", "--only-cached", "--dry-run").out
    assert told.count("it is not stored") == 2 and " run " not in told.partition("\n")[2]
    assert "seed 0: of 4 images" in ended.out
    assert stored(results).equals(before)


def test_only_cached_downloads_nothing(run: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_download", lambda *_: pytest.fail("it downloads"))
    ended = run("-a", "first-layer", "-v", "cifar-mlp-50", "--only-cached", "--data-dir", tmp_path)
    assert ended.status == 0
    assert "dataset cifar is absent" in ended.out + ended.err
    assert "1 run of 1 not stored" in ended.out


def test_missing_data_cost_their_own_victim(run: Bench, results: Path, plugins: Path, tmp_path: Path) -> None:
    folder, data = tmp_path / "mine", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    (folder / "tiny.py").write_text((plugins / "tiny.py").read_text())
    (folder / "own.py").write_text(
        "from victims.spec import *\n"
        "VICTIMS = (VictimSpec(name='own-mlp-4', dataset='own', n=4, architecture=MLPSpec(hidden=(8,)),"
        " training=NormalizedDescent(steps=20)),)\n"
    )
    words = ("-a", "tiny", "-v", "own-mlp-4", "-v", "faces-mlp-4-tiny", "--plugin-dir", folder, "--data-dir", data)
    ended = run(*words, "--controls", "quick")
    assert ended.status == 1
    rows = stored(results).set_index("victim")
    assert rows["status"].to_dict() == {"own-mlp-4": "error", "faces-mlp-4-tiny": "ok"}
    assert "own.npz" in rows.loc["own-mlp-4", "reason"]
    assert rows.loc["own-mlp-4", "flags"] == "environment"
    assert rows["sequence"].min() > 0, "a later end of the same run replaces an earlier one"

    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (8, 12, 12), dtype=np.uint8), np.arange(8) % 2
    np.savez(data / "own.npz", train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    again = run(*words, "--controls", "quick")  # nobody has to ask for it
    assert again.status == 0
    assert stored(results).set_index("victim")["status"].to_dict() == {"own-mlp-4": "ok", "faces-mlp-4-tiny": "ok"}


def test_an_error_in_training_is_a_row(run: Bench, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import victims.training.loop

    def broken(*arguments: object) -> None:
        raise ArithmeticError("no descent")

    monkeypatch.setattr(victims.training.loop, "train", broken)
    folder = results.parent / "cache"
    monkeypatch.setenv("BENCH_CACHE_DIR", str(folder))
    assert run("-a", "tiny", "-a", "picky").status == 1
    rows = stored(results).set_index("attack")
    assert rows.loc["tiny", ["status", "reason"]].tolist() == ["error", "ArithmeticError: no descent"]
    assert rows.loc["picky", "status"] == "skipped"


def test_a_debugger_stops_where_an_attack_fails(run: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    import pdb

    seen: list[str] = []
    monkeypatch.setattr(pdb, "post_mortem", lambda trace: seen.append(trace.tb_frame.f_code.co_name))
    assert run("-a", "raises", "-a", "tiny", "--pdb", "--controls", "quick").status == 1
    assert seen == ["_attacked"]


def test_showing_and_reporting_write_nothing_into_the_results_folder(
    run: Bench, bench: Bench, results: Path, tmp_path: Path
) -> None:
    run("-a", "tiny", "--controls", "quick")
    (run_id,) = stored(results)["run_id"]
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*")}
    folder = ("--results-dir", results)
    assert bench("show", run_id, *folder).status == 0
    assert bench("compare", results / "runs.csv", results / "runs.csv").status == 0
    assert bench("report", "--output", tmp_path / "report.html", *folder).status == 0
    assert {path: path.stat().st_mtime_ns for path in results.rglob("*")} == before
