"""The command line as a user meets it: run, list, show, compare."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from safetensors.torch import load_file

from bench import registry
from bench.leaderboard import BOARD_COLUMNS, write_tables
from bench.records import COLUMNS, NULLS, RunRecord

ATTACKED = {"reconstruction.safetensors", "trace.csv"}
SCORED = {"run.json", "per_sample.csv", "held_out.csv", "examples.safetensors", "grid.png"}
LIGHT_KKT = ("-a", "kkt", "--set", "steps=20", "--set", "restarts=1", "--set", "candidates=12")
Bench = Callable[..., Any]


def stored(results: Path) -> pd.DataFrame:
    return pd.read_csv(results / "runs.csv", keep_default_na=False)


def only_run(results: Path) -> Path:
    (folder,) = (results / "runs").iterdir()
    return folder


def calls(plugins: Path) -> list[int]:
    counted: list[int] = registry.attacks(plugins).items["tiny"].calls  # type: ignore[attr-defined]
    return counted


# --- run


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
    assert tuple(board.columns) == BOARD_COLUMNS
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
        ("wrong-shape", "error", "expected (m, 1, 25, 25)"),
        ("no-candidates", "error", "m > 0"),
        ("returns-nothing", "error", "NoneType"),
        ("bad-labels", "error", "list"),
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


def test_an_edited_attack_is_run_again_and_no_other(run: Bench, results: Path, plugins: Path, tmp_path: Path) -> None:
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

    assert sum("--force" in line for line in again.out.splitlines()) == 1
    assert len(set(stored(results)["run_id"]) & ids) == 1
    assert len(stored(results)) == 2


@pytest.mark.parametrize("attack", ["half-nan", "bad-loss", "vandal"])
def test_an_attack_that_is_merely_odd_is_scored(run: Bench, results: Path, attack: str) -> None:
    run("-a", "tiny")
    ended = run("-a", attack)

    assert ended.status == 0
    table = stored(results).set_index("attack")
    assert table.loc[attack, "status"] == "ok"
    assert table.loc[attack, "attack_loss"] == ""
    assert table.loc[attack, "ssim_mean"] == table.loc["tiny", "ssim_mean"]  # whatever it did to its copies


def test_an_attack_may_decline_a_victim(run: Bench, results: Path, plugins: Path) -> None:
    before = len(calls(plugins))
    ended = run("-a", "picky")

    assert (ended.status, len(calls(plugins))) == (0, before)
    assert "only likes cats" in ended.out
    assert stored(results)[["status", "reason"]].to_numpy().tolist() == [["skipped", "only likes cats"]]
    board = pd.read_csv(results / "leaderboard.csv")
    assert board.empty
    assert tuple(board.columns) == BOARD_COLUMNS


def test_an_interrupt_keeps_what_is_finished(run: Bench, results: Path) -> None:
    ended = run("-a", "tiny", "-a", "interrupted", "-a", "picky")

    assert ended.status == 130
    assert ended.err == "bench: interrupted; finished runs are stored\n"
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


# --- finding attacks and victims


def test_list_and_help_import_no_torch(process: Bench) -> None:
    for words in (["list"], ["--help"], ["run", "--help"], ["show", "kkt"]):
        ended = process("-X", "importtime", "-m", "bench", *words)
        assert ended.status == 0
        imported = {line.split("|")[-1].strip() for line in ended.err.splitlines() if "|" in line}
        assert "typer" in imported
        assert not {name for name in imported if name.partition(".")[0] in ("torch", "torchvision", "skimage")}


def test_list_names_everything_and_what_is_broken(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import no_such_module_anywhere\n")
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "whole.py").write_text(
        "from victims.spec import VictimSpec\nVICTIMS = (VictimSpec(name='mine-mlp-4', dataset='faces', n=4),)\n"
    )
    ended = bench("list", "--plugin-dir", tmp_path)

    assert (ended.status, ended.err) == (0, "")
    assert all(name in ended.out for name in ("kkt", "first-layer", "random", "faces-mlp-100", "mine-mlp-4"))
    broken = [line for line in ended.out.splitlines() if line.startswith("does not import")]
    assert len(broken) == 2
    assert "broken.py: ModuleNotFoundError: No module named 'no_such_module_anywhere'" in broken[0]
    assert "leaves.py: SystemExit: 3" in broken[1]


def test_list_tells_which_victims_are_trained(bench: Bench, run: Bench, plugins: Path) -> None:
    run("-a", "tiny")
    lines = bench("list", "--plugin-dir", plugins).out.splitlines()

    assert next(line for line in lines if "faces-mlp-4-tiny" in line).split()[-1] == "yes"
    assert next(line for line in lines if "faces-mlp-20" in line).split()[-1] == "no"


def test_a_file_dropped_into_a_folder_is_an_attack(run: Bench, results: Path, plugins: Path, tmp_path: Path) -> None:
    folder = tmp_path / "more"
    folder.mkdir()
    tiny = (plugins / "tiny.py").read_text()
    (folder / "fresh.py").write_text(tiny[: tiny.index("class Raises")].replace('"tiny"', '"fresh"'))

    assert run("-a", "fresh", "--plugin-dir", folder).status == 0
    assert stored(results)["attack"].tolist() == ["fresh"]


def test_an_installed_package_brings_attacks_and_victims(
    bench: Bench, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load() -> ModuleType:
        return registry._load(plugins / "tiny.py")

    point = SimpleNamespace(name="tiny", value="tiny_package.tiny", load=load)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == "bench.attacks" else [])

    shown = bench("show", "tiny")
    assert shown.status == 0
    assert "entry point tiny (tiny_package.tiny)" in shown.out
    assert bench("show", "faces-mlp-4-tiny").status == 2


# --- show


def test_show_an_attack(bench: Bench, plugins: Path) -> None:
    kkt = bench("show", "kkt")
    assert kkt.status == 0
    assert all(word in kkt.out for word in ("Haim et al. 2022", "--set steps=", "--variant paper", "class balance"))
    assert "zeros [as many] as asked for" in bench("show", "tiny", "--plugin-dir", plugins).out


def test_show_a_victim(bench: Bench, run: Bench, plugins: Path) -> None:
    assert "weights_sha256" not in bench("show", "faces-mlp-20").out
    run("-a", "tiny")
    tiny = bench("show", "faces-mlp-4-tiny", "--plugin-dir", plugins).out
    assert all(word in tiny for word in ("weights_sha256", "test_accuracy", "tiny.py"))


def test_show_a_run_by_the_start_of_its_id(bench: Bench, run: Bench, results: Path) -> None:
    run("-a", "tiny")
    folder = only_run(results)
    shown = bench("show", folder.name[:-3], "--results-dir", results)

    assert shown.status == 0
    assert folder.name in shown.out
    assert str(folder / "grid.png") in shown.out


def test_show_an_attack_that_has_runs(bench: Bench, run: Bench, results: Path, plugins: Path) -> None:
    run("-a", "tiny", "--seeds", "0-1")

    shown = bench("show", "tiny", "--results-dir", results, "--plugin-dir", plugins)
    assert shown.status == 0
    assert "--set count=" in shown.out


# --- compare


def test_compare_tells_changed_same_and_missing(bench: Bench, record: Callable[..., RunRecord], tmp_path: Path) -> None:
    same, gone, fresh = record(attack="random"), record(attack="gone"), record(attack="fresh", variant="paper")
    old = [record(seed=0, n_good=2), record(seed=1, n_good=4), same, gone]
    new = [record(seed=0, n_good=3), record(seed=1, n_good=4), same, fresh]
    for name, records in (("old", old), ("new", new)):
        write_tables(tmp_path / name, records)
    ended = bench("compare", tmp_path / "old" / "runs.csv", tmp_path / "new" / "runs.csv")

    assert (ended.status, ended.err) == (0, "")
    (changed,) = (line for line in ended.out.splitlines() if "n_good" in line)
    assert [cell.strip() for cell in changed.split("│")] == [
        *("kkt on faces-mlp-4 (buzaglo2023)", "n_good", "3", "3.5", "+0.5", "", "none of the recorded causes")
    ]
    assert "1 cell unchanged." in ended.out
    assert "only in the old file: gone on faces-mlp-4 (buzaglo2023)" in ended.out
    assert "only in the new file: fresh:paper on faces-mlp-4 (buzaglo2023)" in ended.out


def test_compare_fails_on_a_regression_when_asked(
    bench: Bench, record: Callable[..., RunRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")  # as in the log of a CI job
    for name, images, torch in (("old", "ffff", "2.9"), ("new", "f000", "3.0")):
        write_tables(
            tmp_path / name, [record(n=16, n_good=4 * images.count("f"), good_images=images, torch=torch, wall_s=9)]
        )
    paths = [tmp_path / name / "runs.csv" for name in ("old", "new")]
    plain, failed, fine = (
        bench("compare", *words)
        for words in (paths, [*paths, "--fail-on-regression"], [*paths[::-1], "--fail-on-regression"])
    )

    assert (plain.status, failed.status, fine.status) == (0, 1, 0)
    assert plain.out == failed.out
    assert "got worse: kkt on faces-mlp-4 (buzaglo2023): n_good fell from 16 to 4" in failed.out
    (changed,) = (line for line in failed.out.splitlines() if "torch 2.9 -> 3.0" in line)
    assert changed.replace("│", " ").split()[4:10] == ["n_good", "16", "4", "-12", "[-16.77,", "-7.234]"]


def test_compare_with_an_empty_table(bench: Bench, record: Callable[..., RunRecord], tmp_path: Path) -> None:
    write_tables(tmp_path / "old", [])
    write_tables(tmp_path / "new", [record()])
    ended = bench("compare", tmp_path / "old" / "runs.csv", tmp_path / "new" / "runs.csv")

    assert (ended.status, ended.err) == (0, "")
    assert "only in the new file: kkt on faces-mlp-4" in ended.out


def test_run_json_is_the_row_of_runs_csv(run: Bench, results: Path) -> None:
    run("-a", "tiny")
    row = stored(results).iloc[0]
    stored_json = json.loads((only_run(results) / "run.json").read_text())

    assert set(stored_json) == set(COLUMNS)
    assert all(str(stored_json[name]) == str(row[name]) for name in ("run_id", "attack", "seed", "n_good", "flags"))
