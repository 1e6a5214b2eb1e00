"""What decides whether a stored run is run again: versions. What only says so: the hash of the source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from safetensors.torch import load_file, save_file
from stored_runs import stored

from bench.plan import registry
from bench.plan.run import attack_sha

Bench = Callable[..., Any]
CHANGED = (
    "tiny: its source changed since version 1 was measured; --force runs it again, a raised version makes new rows"
)
RETRAINED = (
    "faces-mlp-4-tiny: the source of the training changed since version 1 was made; it is used as it is; a raised "
    "version trains again"
)


@pytest.fixture
def folder(plugins: Path, tmp_path: Path) -> Path:
    """A plug-in folder that a test may change."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "tiny.py").write_text((plugins / "tiny.py").read_text())
    return folder


@pytest.fixture
def tiny(run: Bench, folder: Path) -> Bench:
    """Run the attack `tiny` of the plug-in folder, or of another one."""

    def call(*words: object, of: Path = folder) -> Any:
        return run("-a", "tiny", "--controls", "quick", "--plugin-dir", of, *words)

    return call


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / "tiny.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_comment_is_silent_and_a_constant_is_told_once(tiny: Bench, folder: Path, results: Path) -> None:
    assert CHANGED not in tiny("--seeds", "0-1").out
    before = stored(results)
    edit(folder, "count: int = 3", "count: int = 3  # three")
    edit(folder, '"""Zeros; counts', '"""Noughts; counts')
    assert "changed since" not in tiny("--seeds", "0-1").out
    edit(folder, "count: int = 3", "count: int = 4")
    for words in ((), ("--only-cached",), ("--dry-run",)):
        ended = tiny("--seeds", "0-1", *words)
        assert ended.status == 0
        assert ended.out.count(CHANGED) == 1
        assert stored(results).equals(before)


def test_a_forced_run_records_the_new_source_and_nothing_is_told_any_more(
    tiny: Bench, folder: Path, results: Path
) -> None:
    tiny()
    edit(folder, "count: int = 3", "count: int = 4")
    assert "changed since" not in tiny("--force").out
    assert "changed since" not in tiny().out
    assert len(stored(results)) == 1


def test_attacked_twins_are_kept_whatever_changed_in_the_source_until_they_are_forced(
    run: Bench, folder: Path, cache_dir: Path
) -> None:
    def twins() -> dict[Path, int]:
        return {path: path.stat().st_ino for path in (cache_dir / "controls").glob("tiny-*.safetensors")}

    def told(seed: int, *more: str) -> int:
        words = ("-a", "tiny", "--set", "count=13", "--seeds", seed, "--plugin-dir", folder, *more)
        return int(run(*words).out.count("tiny: its source changed since version 1 attacked faces-mlp-4-tiny~"))

    others = twins()
    assert told(0) == 0
    made = twins()
    assert len(made) == len(others) + 2
    edit(folder, "images = torch.zeros(self", "pictures = images = torch.zeros(self")
    assert (told(1), twins()) == (2, made)
    assert told(1, "--force") == 0
    again = twins()
    assert again.keys() == made.keys() and len(again.items() - made.items()) == 2
    assert (told(2), twins()) == (0, again)


def test_twins_that_an_older_version_of_this_suite_attacked_are_found_by_the_hash_in_their_name(
    run: Bench, folder: Path, cache_dir: Path
) -> None:
    def told(seed: int) -> bool:
        words = ("-a", "tiny", "--set", "count=14", "--seeds", seed, "--plugin-dir", folder)
        return "tiny: its source changed since version 1 attacked" in run(*words).out

    others = {*(cache_dir / "controls").glob("tiny-*.safetensors")}
    told(0)
    today = attack_sha(registry.attacks(folder).items["tiny"])
    made = {*(cache_dir / "controls").glob("tiny-*.safetensors")} - others
    assert len(made) == 2
    for path in made:
        save_file(load_file(path), path.with_stem(f"{path.stem}-{today}"))
        save_file(load_file(path), path.with_stem(f"{path.stem}-0123456789abcdef"))
        path.unlink()
    assert not told(1)
    for path in made:
        path.with_stem(f"{path.stem}-{today}").unlink()
    assert told(2)
    assert not any(path.exists() for path in made)  # no twin was attacked again


def test_a_raised_version_makes_a_new_row_and_takes_the_old_one_off_the_board(
    tiny: Bench, bench: Bench, folder: Path, results: Path, tmp_path: Path
) -> None:
    tiny()
    (old,) = stored(results)["run_id"]
    table = (results / "runs.csv").read_text()
    (tmp_path / "old.csv").write_text(table)
    raised = tmp_path / "raised"
    raised.mkdir()
    (raised / "tiny.py").write_text((folder / "tiny.py").read_text())
    edit(raised, 'name = "tiny"', 'name = "tiny"\n    version = 2')
    edit(raised, "torch.zeros(", "torch.rand(")
    ended = tiny(of=raised)

    assert "changed since" not in ended.out
    rows = stored(results).set_index("attack_version")
    assert rows.loc[1, "run_id"] == old
    assert rows.loc[2, "run_id"] != old
    assert (results / "runs" / old / "run.json").exists()
    assert len(pd.read_csv(results / "leaderboard.csv")) == 1
    compared = bench("compare", tmp_path / "old.csv", results / "runs.csv")
    assert "attack version 1 -> 2" in compared.out
    assert "attack_version" in bench("show", old, "--results-dir", results).out


def test_a_plug_in_has_one_id_and_one_hash_wherever_its_folder_lies(
    tiny: Bench, folder: Path, results: Path, tmp_path: Path
) -> None:
    tiny()
    moved = tmp_path / "another" / "place"
    moved.parent.mkdir()
    hashes = {attack_sha(registry.attacks(folder).items["tiny"])}
    moved.mkdir()
    (moved / "tiny.py").write_text((folder / "tiny.py").read_text())
    hashes.add(attack_sha(registry.attacks(moved).items["tiny"]))
    ended = tiny(of=moved)

    assert "stored; --force" in ended.out
    assert "changed since" not in ended.out
    assert {*stored(results)["attack_sha"]} == hashes
    assert len(hashes) == 1 and "" not in hashes


def test_a_trained_victim_whose_training_changed_is_told_and_kept(
    tiny: Bench, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny()
    monkeypatch.setattr("bench.run.todo.training_sha", lambda setting: "0123456789abcdef")

    def trained(*arguments: object) -> None:
        pytest.fail("the victim is trained again")

    monkeypatch.setattr("victims.training.loop.train", trained)
    for words in ((), ("--dry-run",), ("--force",)):
        assert tiny(*words).out.count(RETRAINED) == 1
    assert stored(results)["victim_version"].tolist() == [1]


def test_many_victims_are_one_line(run: Bench, plugins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.run.todo.trained_card", lambda spec, data_dir: {"training_sha": "another"})
    words = ("-a", "random", "-v", "faces-mlp-*", "--only-cached", "--plugin-dir", plugins)
    (told,) = [line for line in run(*words).out.splitlines() if "changed since" in line]
    assert " more: the source of the training changed since version 1 was made" in told
    assert told.count(",") == 2


def test_a_raised_protocol_is_scored_again_as_a_row_of_its_own(
    tiny: Bench, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from bench.scoring import PROTOCOLS

    tiny()
    raised = dataclasses.replace(PROTOCOLS["buzaglo2023"], version=3)
    monkeypatch.setitem(PROTOCOLS, "buzaglo2023", raised)
    told = " ".join(tiny("--dry-run").out.split())
    assert "score again" in told and "of another version of" in told
    tiny()
    assert sorted(stored(results)["protocol_version"]) == [2, 3]
    assert len(pd.read_csv(results / "leaderboard.csv")) == 1


def test_an_attack_whose_source_cannot_be_read_has_no_hash(folder: Path) -> None:
    attack = registry.attacks(folder).items["tiny"]
    (folder / "tiny.py").write_text("def :")
    assert attack_sha(attack) == ""
    (folder / "tiny.py").unlink()
    assert attack_sha(attack) == ""
