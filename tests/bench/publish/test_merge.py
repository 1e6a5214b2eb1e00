"""Results folders become one, or a line says what does not fit; nothing is lost and no source changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.publish.compare import compare
from bench.publish.leaderboard import write_tables
from bench.publish.merge import merge
from bench.publish.runs_table import read_runs
from bench.store.folders import Store, write_record
from bench.store.records import RunRecord
from victims.errors import UserError

Make = Callable[..., RunRecord]


def folder(root: Path, *records: RunRecord, **files: str) -> Path:
    """A results folder with run folders, tables and other files."""
    store = Store(root)
    store.require_writable()
    for record in records:
        with store.writing(record.run_id) as made:
            write_record(made, record)
            (made / "log.txt").write_text(f"log of {record.run_id}")
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    write_tables(root, store.records())
    return root


def everything(root: Path) -> dict[Path, bytes]:
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_copy_of_a_run_beside_a_row_without_its_number_is_the_same_run(record: Make, tmp_path: Path) -> None:
    run = record(run_id="run", grad_evals=1_234_567)
    left = folder(tmp_path / "a", run)
    right = folder(tmp_path / "b", run, record(run_id="failed", attack="failed", grad_evals=None))
    assert merge([left, right], tmp_path / "c")[0] == 2


def test_all_of_both_is_in_the_new_folder(record: Make, tmp_path: Path) -> None:
    mine, common = record(run_id="mine", attack="mine"), record(run_id="common")
    left = folder(tmp_path / "a", mine, common, studies__one__table="1", tune__x="2")
    right = folder(tmp_path / "b", common, record(run_id="theirs", attack="theirs"), studies__two__table="3")
    write_tables(left, [record(run_id="published", attack="published")])  # a row whose folder is elsewhere
    before = everything(left), everything(right)

    assert merge([left, right], tmp_path / "c") == (4, 9)
    assert (everything(left), everything(right)) == before
    rows = read_runs(tmp_path / "c" / "runs.csv")
    assert sorted(rows["attack"]) == ["kkt", "mine", "published", "theirs"]
    merged = everything(tmp_path / "c")
    for source in before:
        for place, content in source.items():
            assert place.name in ("runs.csv", "leaderboard.csv", "leaderboard.md") or merged[place] == content
    assert len(list(Store(tmp_path / "c").records())) == 3
    for source in (left, right):
        found = compare(source, tmp_path / "c")
        assert (len(found.changed), found.only_old) == (0, [])


@pytest.mark.parametrize("linked", ["runs", "runs/mine"])
def test_what_lies_behind_a_link_is_in_the_new_folder_too(record: Make, tmp_path: Path, linked: str) -> None:
    left = folder(tmp_path / "a", record(run_id="mine", attack="mine"))
    right = folder(tmp_path / "b", record(run_id="theirs", attack="theirs"))
    (left / linked).rename(tmp_path / "elsewhere")
    (left / linked).symlink_to(tmp_path / "elsewhere")

    assert merge([left, right], tmp_path / "c") == (2, 4)
    assert (tmp_path / "c" / "runs" / "mine" / "log.txt").read_text() == "log of mine"
    assert not (tmp_path / "c" / linked).is_symlink()


def test_a_link_to_a_folder_that_it_lies_in_is_refused(record: Make, tmp_path: Path) -> None:
    left = folder(tmp_path / "a", record(run_id="mine", attack="mine"))
    right = folder(tmp_path / "b", record(run_id="theirs", attack="theirs"))
    (left / "studies").mkdir()
    (left / "studies" / "back").symlink_to(left)
    with pytest.raises(UserError, match="studies holds a link to a folder that it lies in; remove the link"):
        merge([left, right], tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_a_file_that_one_folder_has_is_not_compared_with_itself(
    record: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    monkeypatch.setattr("filecmp.cmp", lambda one, other, shallow: compared.append(Path(one).name) or True)
    common = record(run_id="common")
    merge([folder(tmp_path / "a", common, tune__x="1"), folder(tmp_path / "b", common)], tmp_path / "c")
    assert sorted(compared) == ["log.txt", "run.json"]


def test_merging_is_symmetric(record: Make, tmp_path: Path) -> None:
    left = folder(tmp_path / "a", record(run_id="one", attack="one"), record(run_id="two", attack="two"))
    right = folder(tmp_path / "b", record(run_id="three", attack="three"), record(run_id="two", attack="two"))
    merge([left, right], tmp_path / "c")
    merge([right, left], tmp_path / "d")
    assert everything(tmp_path / "c") == everything(tmp_path / "d")


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"n_good": 2}, "the run common is another one in .*; --replace takes the runs of the later folder$"),
        ({"run_id": "renamed", "n_good": 2}, "has another run_id, n_good in another table"),
        (
            {"run_id": "next", "seed": 1, "victim_sha": "b" * 64},
            r"victim seed 0, has different weights under one definition \([ab, ]*\)$",
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    record: Make, tmp_path: Path, other: dict[str, Any], words: str
) -> None:
    known = {"run_id": "common", "victim_key": "k", "victim_sha": "a" * 64}
    left = folder(tmp_path / "a", record(**known))
    right = folder(tmp_path / "b", record(**(known | other)))
    with pytest.raises(UserError, match=words):
        merge([left, right], tmp_path / "c")
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("plugins")) == ["a", "b"]


def test_the_same_run_of_another_machine_or_retraining_fits(record: Make, tmp_path: Path) -> None:
    left = folder(tmp_path / "a", record(run_id="one", victim_key="k", victim_sha="a"))
    again = record(run_id="two", victim_key="k", victim_sha="b", victim_seed=1, cpu="Abacus")
    merge([left, folder(tmp_path / "b", again)], tmp_path / "c")
    assert len(read_runs(tmp_path / "c" / "runs.csv")) == 2


def test_a_later_folder_replaces_the_same_runs_and_the_weights_of_a_training(record: Make, tmp_path: Path) -> None:
    known = {"victim": "v", "victim_key": "k", "victim_sha": "a"}
    old = [record(run_id="kkt", **known), record(run_id="random", attack="random", **known)]
    old += [record(run_id="retrained", victim_seed=1, **known | {"victim_sha": "c"}), record(run_id="w", victim="w")]
    left = folder(tmp_path / "a", *old)
    other = known | {"victim_sha": "b", "n_good": 2}
    new = [record(run_id="kkt", **other), record(run_id="random-2", attack="random", **other)]
    part, whole = folder(tmp_path / "part", new[0]), folder(tmp_path / "whole", *new)

    with pytest.raises(UserError, match=r"v, victim seed 0, has other weights in .*part, without all runs of random"):
        merge([left, part], tmp_path / "c", replace=True)
    with pytest.raises(UserError, match="the run kkt is another one"):
        merge([left, whole], tmp_path / "c")
    merge([left, whole], tmp_path / "c", replace=True)
    rows = read_runs(tmp_path / "c" / "runs.csv").set_index("run_id")
    assert rows["victim_sha"].to_dict() == {"kkt": "b", "random-2": "b", "retrained": "c", "w": ""}
    assert rows.loc["kkt", "n_good"] == 2
    assert {path.name for path in (tmp_path / "c" / "runs").iterdir()} == set(rows.index)


def test_the_runs_of_a_training_with_other_weights_may_lie_in_several_later_folders(
    record: Make, tmp_path: Path
) -> None:
    known = {"victim": "v", "victim_key": "k", "victim_sha": "a"}
    old = [record(run_id="kkt", **known), record(run_id="random", attack="random", **known)]
    left = folder(tmp_path / "a", *old)
    new = [one.model_copy(update={"victim_sha": "b"}) for one in old]
    one, two = folder(tmp_path / "b", new[0]), folder(tmp_path / "c", new[1])
    merge([left, one, two], tmp_path / "d", replace=True)
    rows = read_runs(tmp_path / "d" / "runs.csv").set_index("run_id")
    assert rows["victim_sha"].to_dict() == {"kkt": "b", "random": "b"}

    (one / "runs.csv").unlink()  # as after a sweep that was cut off: its runs alone are there
    merge([left, one, two], tmp_path / "g", replace=True)
    assert everything(tmp_path / "g") == everything(tmp_path / "d")

    again = folder(tmp_path / "e", new[1].model_copy(update={"victim_sha": "c"}))
    with pytest.raises(UserError, match=r"v, victim seed 0, has other weights in .*e, without all runs of kkt"):
        merge([left, again], tmp_path / "f", replace=True)
    with pytest.raises(UserError, match="v, victim seed 0, has different weights under one definition"):
        merge([left, one, again], tmp_path / "f", replace=True)


def test_the_same_run_with_more_null_controls_replaces_it_alone(record: Make, tmp_path: Path) -> None:
    known = {"victim": "v", "victim_key": "k", "victim_sha": "a"}
    old = [record(run_id="kkt", **known), record(run_id="random", attack="random", **known)]
    scored = folder(tmp_path / "b", old[0].model_copy(update={"null_disjoint": 1}))
    merge([folder(tmp_path / "a", *old), scored], tmp_path / "c", replace=True)
    rows = read_runs(tmp_path / "c" / "runs.csv").set_index("run_id")
    assert rows["null_disjoint"].fillna(-1).to_dict() == {"kkt": 1, "random": -1}


def test_what_a_run_found_is_not_replaced_by_its_failure(record: Make, tmp_path: Path) -> None:
    found, failed = record(run_id="kkt"), record(run_id="kkt", status="timeout", reason="too slow", n_good=None)
    left, right = folder(tmp_path / "a", found), folder(tmp_path / "b", failed)
    with pytest.raises(UserError, match=r"the run kkt ended well in .*a and badly in .*b: leave it out there"):
        merge([left, right], tmp_path / "c", replace=True)
    merge([right, left], tmp_path / "c", replace=True)
    assert read_runs(tmp_path / "c" / "runs.csv")["status"].tolist() == ["ok"]


def test_a_folder_that_is_not_to_be_replaced_is_refused(
    record: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [folder(tmp_path / name, record(run_id=name)) for name in "ab"]
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UserError, match="name a new folder in it"):
        merge(sources, Path())


def test_a_row_under_another_protocol_is_refused_and_not_replaced(record: Make, tmp_path: Path) -> None:
    again = record(run_id="kkt", victim="v", victim_sha="a", n_good=2)
    left = folder(tmp_path / "a", again.model_copy(update={"n_good": 1, "protocol": "assigned"}))
    with pytest.raises(UserError, match="the run kkt is another one"):
        merge([left, folder(tmp_path / "b", again)], tmp_path / "c", replace=True)


def test_a_study_of_two_kinds_is_refused(record: Make, tmp_path: Path) -> None:
    left = folder(tmp_path / "a", record(), studies__one__table="1")
    right = folder(tmp_path / "b", record(), studies__one__table="2")
    with pytest.raises(UserError, match=r"studies/one/table is another one in .*b than in .*a"):
        merge([left, right], tmp_path / "c")


def test_on_the_command_line(bench: Callable[..., Any], record: Make, tmp_path: Path) -> None:
    left, right = (folder(tmp_path / name, record(run_id=name, attack=name)) for name in "ab")
    done = bench("merge", left, right, "--output", tmp_path / "c")
    assert (done.status, done.err) == (0, "")
    assert "2 rows of 2 folders, 4 files" in done.out

    for words, reason in (
        ([left, right, "--output", tmp_path / "c"], "exists and is not empty"),
        ([left, left, "--output", tmp_path / "d"], "two or more different"),
        ([left, "", "--output", tmp_path / "d"], "it is empty; name a folder"),
        ([left, tmp_path / "absent", "--output", tmp_path / "d"], "absent is no results folder"),
    ):
        ended = bench("merge", *words)
        assert ended.status == 2 and reason in ended.err and ended.err.count("\n") == 1


def test_what_is_made_of_the_shards_is_no_reason_to_refuse_them(
    bench: Callable[..., Any], record: Make, tmp_path: Path
) -> None:
    trials = "n_good,loss,seconds\n{},1,2\n4,0.5,2\n"
    shards = []
    for number, name in enumerate("ab"):
        files = {f"tune__{name}__trials.csv": trials.format(number), "tune__summary.csv": f"study\n{name}\n"}
        files |= {"privacy.csv": name, "privacy.png": "alike", "tune__no__trials.csv": ""}
        shards.append(folder(tmp_path / name, record(run_id=name, attack=name), **files))
    done = bench("merge", *shards, "--output", tmp_path / "c")
    assert done.status == 0
    assert "no/trials.csv is no table of trials" in done.err and done.err.count("\n") == 1
    summary = (tmp_path / "c" / "tune" / "summary.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in summary] == ["study", "a", "b"]
    assert not (tmp_path / "c" / "privacy.csv").exists()
    assert (tmp_path / "c" / "privacy.png").read_text() == "alike"
