"""The other verbs as their user sees them: list, show, compare, and how attacks and victims are found."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from stored_runs import only_run, stored

from bench.plan import registry
from bench.publish.leaderboard import write_tables
from bench.store.records import RunRecord

Bench = Callable[..., Any]


def test_scoring_in_a_folder_that_does_not_exist_makes_none(bench: Bench, tmp_path: Path) -> None:
    ended = bench("score", "--results-dir", tmp_path / "typo")
    assert (ended.status, "no stored run in" in ended.err) == (2, True)
    assert not (tmp_path / "typo").exists()


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


@pytest.mark.parametrize("words", [("show", "mine"), ("run", "-v", "mine", "--dry-run")], ids=["show", "run"])
def test_a_plugin_that_does_not_import_is_told_before_a_name_that_is_not_known(
    bench: Bench, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "own.py").write_text("import no_such_module_anywhere\n")
    ended = bench(*words, "--plugin-dir", tmp_path / "own.py")

    assert ended.status == 2
    assert ended.err.startswith(f"bench: {tmp_path / 'own.py'} does not import: ModuleNotFoundError")
    assert "'mine'" in ended.err
    assert len(ended.err) < 600


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


def test_parameters_that_there_are_none_of_or_that_are_not_described_have_no_row(bench: Bench, plugins: Path) -> None:
    assert "\nparameters" in bench("show", "kkt").out
    assert "\nparameters" not in bench("show", "class-mean").out
    undescribed = bench("show", "tiny", "--plugin-dir", plugins).out
    assert "--set count=" in undescribed
    assert "\nparameters" not in undescribed


def test_show_a_victim(bench: Bench, run: Bench, plugins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the seeds that may have drawn its start a few are tried; that the right one is found is tested elsewhere."""
    monkeypatch.setattr("victims.exposure.reading.SEEDS", 100)
    assert "weights_sha256" not in bench("show", "faces-mlp-20").out
    run("-a", "tiny")
    tiny = bench("show", "faces-mlp-4-tiny", "--plugin-dir", plugins).out
    assert all(word in tiny for word in ("weights_sha256", "test_accuracy", "tiny.py"))


def test_show_a_column(bench: Bench) -> None:
    shown = bench("show", "gain").out
    assert "column of leaderboard.csv" in shown
    assert "with its 95% interval" in " ".join(shown.split())
    assert "column of leaderboard.csv" in bench("show", "rank").out
    assert "column of runs.csv" in bench("show", "n_good").out
    assert "Seconds of the victim's training." in bench("show", "train_s").out
    assert "hash of the victim's weights" in bench("show", "weights").out
    alone = " ".join(bench("show", "n_good_unique").out.split())
    assert "Training images that pass when a candidate may serve one image only" in alone


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


def test_what_a_record_holds_steers_no_terminal(bench: Bench, results: Path) -> None:
    folder = results / "runs" / "kkt-one"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text('{"schema_version": 3, "reason": "\\u001b[31mred \\u202e [bold]"}')
    shown = bench("show", "kkt-one", "--results-dir", results)

    assert shown.status == 0
    assert r"\x1b[31mred \u202e [bold]" in shown.out


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
    assert "only in the old table: gone on faces-mlp-4 (buzaglo2023)" in ended.out
    assert "only in the new table: fresh:paper on faces-mlp-4 (buzaglo2023)" in ended.out


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
    assert "only in the new table: kkt on faces-mlp-4" in ended.out


LOADED = """
import sys
from bench.cli import executing, main
from bench.plan import config, registry
from bench.run.executors import server
registry.attacks(), registry.victims()
print('torch' in sys.modules)
sys.argv = ['bench', 'run', '--dry-run', *sys.argv[1:]]
try:
    main.main()
except SystemExit:
    print({'torch', 'pandas', 'matplotlib', 'optuna', 'scipy', 'sklearn', 'torchvision'} & sys.modules.keys())
"""


@pytest.mark.parametrize(("words", "loaded"), [(["-a", "random"], {"torch"}), ([], {"torch", "pandas"})])
def test_nothing_is_loaded_before_it_is_needed(
    process: Bench, tmp_path: Path, words: list[str], loaded: set[str]
) -> None:
    """A plug-in's import is rehearsed in a fork, which is safe only as long as torch is not loaded.

    A run is previewed with torch alone, and how long several take is told from a table: each of the others takes up to
    a second of every process.
    """
    first, *_, last = process("-c", LOADED, "--results-dir", tmp_path, *words).out.splitlines()
    assert (first, ast.literal_eval(last)) == ("False", loaded)


def test_a_folder_of_the_users_home_may_be_named_by_its_sign(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No shell expands `~` behind `=`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    claims = Path("results/claims.toml").resolve()
    (tmp_path / "file").write_text("")
    assert bench("list", "--picture=~/knowledge.png").status == 0
    assert (tmp_path / "knowledge.png").exists()
    assert bench("new", "attack", "mine", "--folder=~/own attacks").out.endswith("own attacks/mine.py'`\n")
    assert (tmp_path / "own attacks" / "mine.py").exists()
    for words in (
        ("run", "--config=~/none"),
        ("verify", "--claims=~/none"),
        ("check", "~/none"),
        ("audit", "~/none"),
    ):
        assert str(tmp_path / "none") in bench(*words).err
    rerun = bench("verify", "--rerun=quick", "--rerun-dir=~/file/again", f"--claims={claims}")
    assert str(tmp_path / "file" / "again") in rerun.err
    unknown = bench("list", "--picture=~nobody-of-this-name/knowledge.png")
    assert unknown.status == 2
    assert "Could not determine home directory" in unknown.err


def test_a_path_through_a_file_is_one_line(bench: Bench, tmp_path: Path, record: Callable[..., RunRecord]) -> None:
    (tmp_path / "file").write_text("")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_tables(tmp_path / name, [record(run_id=f"kkt-faces-mlp-4-s0-{name * 10}")])
    ended = bench("merge", tmp_path / "a", tmp_path / "b", "--output", tmp_path / "file" / "x")
    assert ended.status == 2
    assert len(ended.err.strip().splitlines()) == 1
