"""The verb `tune`: what is searched, who may look at what, and which row comes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.experiments.tuning import verb
from bench.run.failures import AttackFailedError, Failure
from bench.store.file_names import RECONSTRUCTION
from bench.store.folders import Store, write_record
from bench.store.records import Status

TABLE = """
from victims.spec import MLPSpec, Regularised, VictimSpec

NETWORK = MLPSpec(hidden=())
VICTIMS = (VictimSpec(name="patients", dataset="cancer", n=8, architecture=NETWORK, training=Regularised(steps=20)),)
"""
Bench = Callable[..., Any]


def trials(results: Path, study: str = "bowl-faces-mlp-4-tiny-random") -> pd.DataFrame:
    return pd.read_csv(results / "tune" / study / "trials.csv")


def test_the_pick_is_a_row_with_the_smallest_loss(tune: Bench, results: Path) -> None:
    ended = tune("--trials", 8)
    assert (ended.status, ended.err) == (0, "")
    table = trials(results)
    assert len(table) == 8
    assert table["n_good"].isna().all()
    failed = table["x"] >= 0.9
    assert (table.loc[failed, "state"] == "failed").all()
    best = table.loc[table["loss"].idxmin()]
    (row,) = pd.read_csv(results / "runs.csv").to_dict("records")
    assert row["tuned_by"] == "tune"
    assert json.loads(row["params_json"])["x"] == pytest.approx(best["x"], rel=1e-5)
    assert row["attack_loss"] == pytest.approx(best["loss"], rel=1e-4)


def test_an_attack_that_cannot_say_whom_it_takes_costs_only_itself(tune: Bench, results: Path) -> None:
    ended = tune("-a", "chooses", "-a", "bowl", "--trials", 1)
    assert ended.status == 1
    told = "chooses on faces-mlp-4-tiny seed 0: it cannot say whom it takes: KeyError: 'cats'"
    assert told in (ended.out + ended.err).splitlines()
    assert list(pd.read_csv(results / "runs.csv")["attack"]) == ["bowl"]


def test_a_mistake_is_told_before_the_first_search(tune: Bench, results: Path) -> None:
    ended = tune("-a", "bowl", "-a", "tiny", "--trials", 1)
    assert (ended.status, len(ended.err.splitlines())) == (2, 1)
    assert "there is nothing to search; search spaces of tiny: none" in ended.err
    assert not (results / "tune").exists()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AttackFailedError(Failure(Status.OOM, "no memory")), "no memory"),
        (RuntimeError("no luck"), "RuntimeError: no luck"),
        (SystemExit("enough"), "SystemExit: enough"),
    ],
)
def test_best_trials_that_cannot_be_pooled_cost_no_pick(
    tune: Bench, results: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, reason: str
) -> None:
    def fails(*_: object) -> str:
        raise error

    monkeypatch.setattr(verb, "write_pool", fails)
    ended = tune("--trials", 2, "--pool", 2, "--jobs", 0)
    assert ended.status == 1
    assert f"the best trials are not pooled: {reason}" in ended.out
    assert list(pd.read_csv(results / "runs.csv")["tuned_by"]) == ["tune"]


def test_what_is_stored_is_not_tried_again(tune: Bench, results: Path) -> None:
    tune("--trials", 3)
    before = trials(results)
    ended = tune("--trials", 5)
    assert "trial 2 " not in ended.out
    assert ended.out.count(": trial ") == 2
    numbers = ["trial", "loss", "seconds", "x", "y"]
    pd.testing.assert_frame_equal(trials(results).loc[:2, numbers], before[numbers])
    assert "stored" in tune("--trials", 5).out


def test_trials_of_another_source_are_told(tune: Bench, folder: Path) -> None:
    def told() -> bool:
        done = tune("--trials", "1")
        return "the attack's source changed since trials of version 1 were made" in " ".join(
            (done.out + done.err).split()
        )

    assert not told() and not told()
    file = folder / "bowl.py"
    file.write_text(file.read_text() + "# a comment\n")
    assert not told()
    file.write_text(file.read_text().replace("abs(p.x - p.shift)", "2 * abs(p.x - p.shift)"))
    assert told()


def test_what_the_user_sets_is_not_searched(tune: Bench, results: Path) -> None:
    tune("--trials", 2, "--set", "x=0.5")
    assert "x" not in trials(results)
    (row,) = pd.read_csv(results / "runs.csv").to_dict("records")
    assert json.loads(row["params_json"])["x"] == 0.5


def test_a_variant_has_ranges_of_its_own(tune: Bench, results: Path) -> None:
    tune("--trials", 2, "--variant", "wide", "--set", "shift=15")
    assert trials(results, "bowl-wide-faces-mlp-4-tiny-random")["x"].between(10, 20).all()


def test_an_oracle_picks_by_good_images_and_is_on_no_board(tune: Bench, results: Path) -> None:
    ended = tune("--trials", 8, "--oracle")
    assert ended.status == 0, ended.err
    table = trials(results, "bowl-faces-mlp-4-tiny-random-oracle")
    done = table[table["state"] == "done"]
    assert (done["n_good"] > 0).any()
    (row,) = pd.read_csv(results / "runs.csv").to_dict("records")
    assert (row["tuned_by"], row["n_good"]) == ("oracle", done["n_good"].max())
    assert pd.read_csv(results / "leaderboard.csv").empty
    (summary,) = pd.read_csv(results / "tune" / "summary.csv").to_dict("records")
    picked = done.loc[done["loss"].idxmin(), "n_good"]
    assert (summary["n_good_picked"], summary["n_good_oracle"]) == (picked, done["n_good"].max())

    tune("--trials", 8)
    attackers = trials(results)
    pd.testing.assert_series_equal(attackers["x"], table["x"])  # the same trials, of which another one is picked
    rows = pd.read_csv(results / "runs.csv").set_index("tuned_by")
    assert rows.loc["tune", "n_good"] == picked


def test_what_an_oracle_picked_is_the_attackers_who_picks_the_same(
    tune: Bench, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune("--trials", 1, "--oracle")
    assert pd.read_csv(results / "runs.csv")["tuned_by"].tolist() == ["oracle"]
    # another `bench run` begins while the row is written
    monkeypatch.setattr(verb, "write_record", lambda *row: (Store(results).sweep(), write_record(*row)))
    tune("--trials", 1)
    (row,) = pd.read_csv(results / "runs.csv").to_dict("records")
    assert row["tuned_by"] == "tune"
    assert (Store(results).folder(row["run_id"]) / RECONSTRUCTION).exists()


def test_the_best_trials_are_pooled(tune: Bench, results: Path) -> None:
    """The attack `bowl` shows more images for a larger x, so the pool has the images of its largest x."""
    ended = tune("--trials", 6, "--pool", 3, "--set", "shift=0.5")
    assert ended.status == 0, ended.err
    best = trials(results).dropna(subset="loss").nsmallest(3, "loss")
    (row,) = pd.read_csv(results / "tune" / "bowl-faces-mlp-4-tiny-random" / "pool.csv").to_dict("records")
    assert row["trials"] == " ".join(map(str, best["trial"]))
    assert row["n_candidates"] == 12
    assert row["n_good_unique"] == int(4 * best["x"].max())
    assert row["null_n_good"] == max(row[name] for name in ("null_random", "null_mean_image", "null_held_out"))
    assert row["gain_over_null"] == row["n_good"] - row["null_n_good"]
    assert f"{row['n_good']} good under buzaglo2023" in ended.out


def test_tpe_stops_trials_that_are_worse_than_the_median(tune: Bench, results: Path) -> None:
    tune("--trials", 24, "--sampler", "tpe", "--set", "y=0")
    table = trials(results, "bowl-faces-mlp-4-tiny-tpe")
    stopped = table["state"] == "stopped"
    assert stopped.any()
    assert table.loc[stopped, "loss"].isna().all()
    assert (table["state"] != "stopped").iloc[:10].all()  # as long as there is nothing to compare with


def test_trials_that_fail_say_why_and_are_no_pick(tune: Bench, results: Path) -> None:
    ended = tune("--trials", 2, "-a", "fails")
    assert ended.status == 1
    assert "no trial came to an end" in ended.out
    assert trials(results, "fails-faces-mlp-4-tiny-random")["reason"].tolist() == ["RuntimeError: no luck"] * 2


def test_an_attack_that_ends_the_process_costs_only_its_trials(tune: Bench, results: Path) -> None:
    ended = tune("--trials", 2, "-a", "exits", "--jobs", 0)
    assert ended.status == 1
    assert "no trial came to an end" in ended.out
    assert trials(results, "exits-faces-mlp-4-tiny-random")["reason"].tolist() == ["SystemExit: enough"] * 2


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (("-a", "tiny"), "there is nothing to search; search spaces of tiny: none"),
        (("--variant", "odd"), "search spaces of bowl: no variant, --variant wide"),
        (("--trials", 0), "--trials': Input should be greater than or equal to 1"),
        (("--sampler", "grid"), "'grid' is not one of"),
    ],
)
def test_mistakes_are_one_line(tune: Bench, args: tuple[object, ...], line: str) -> None:
    ended = tune(*args)
    assert ended.status == 2
    assert line in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_study_of_another_search_space_is_one_line(tune: Bench, folder: Path, results: Path) -> None:
    tune("--trials", 1)
    ended = tune("--trials", 1, "--set", "x=0.5")
    assert ended.status == 2
    assert "holds a study with another parameter set, search space" in ended.err


def test_a_published_table_is_not_replaced_by_a_search_that_lacks_its_trials(tune: Bench, results: Path) -> None:
    tune("--trials", 3, "--oracle")
    study = results / "tune" / "bowl-faces-mlp-4-tiny-random-oracle"
    summary = results / "tune" / "summary.csv"
    before = (study / "trials.csv").read_bytes(), summary.read_bytes()
    (study / "journal.log").unlink()
    ended = tune("--trials", 3, "--oracle")
    assert ended.status == 0
    assert f"{study / 'trials.csv'} has its 3 trials" in ended.out
    ended = tune("--trials", 4, "--oracle")
    assert ended.status == 2
    assert "is of a search whose journal.log is not there" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert ((study / "trials.csv").read_bytes(), summary.read_bytes()) == before
    (study / "trials.csv").unlink()
    assert tune("--trials", 1, "--oracle").status == 0


@pytest.mark.parametrize(
    ("text", "reason"), [("", "No columns to parse"), ("a,b\n1,2\n", "it has no column n_good"), ("\0\1", "column")]
)
def test_a_table_of_trials_that_cannot_be_read_costs_no_pick(
    tune: Bench, results: Path, text: str, reason: str
) -> None:
    other = results / "tune" / "other" / "trials.csv"
    other.parent.mkdir(parents=True)
    other.write_text(text)
    ended = tune("--trials", 1, "--oracle")
    assert ended.status == 0
    assert f"{other} is no table of trials" in ended.out and reason in ended.out
    assert len(pd.read_csv(results / "runs.csv")) == 1
    assert pd.read_csv(results / "tune" / "summary.csv")["study"].tolist() == ["bowl-faces-mlp-4-tiny-random-oracle"]

    own = other.parents[1] / "bowl-faces-mlp-4-tiny-random-oracle"
    (own / "journal.log").unlink()
    (own / "trials.csv").write_text(text)
    ended = tune("--trials", 1, "--oracle")
    assert (ended.status, ended.err.count("\n")) == (2, 1) and "is no table of trials" in ended.err


def test_a_damaged_journal_is_one_line(tune: Bench, results: Path) -> None:
    tune("--trials", 1)
    journal = results / "tune" / "bowl-faces-mlp-4-tiny-random" / "journal.log"
    whole = journal.read_bytes()
    for damaged in (whole[:-20], whole + b"{\n"):
        journal.write_bytes(damaged)
        ended = tune("--trials", 2)
        assert (ended.status, ended.err.count("\n")) == (2, 1)
        assert "journal.log is damaged in line" in ended.err
    kept = [line for line in journal.read_bytes().splitlines(keepends=True) if line != b"{\n"]
    journal.write_bytes(b"".join(kept))
    assert tune("--trials", 2).status == 0


def test_trials_on_a_table_are_pooled(bench: Bench, folder: Path, results: Path) -> None:
    """A row of a table has one count."""
    (folder / "patients.py").write_text(TABLE)
    given = ("-a", "bowl", "-v", "patients", "--trials", 2, "--pool", 2, "--controls", "quick", "--device", "cpu")
    ended = bench("tune", *given, "--plugin-dir", folder, "--results-dir", results)
    assert (ended.status, ended.err) == (0, "")
    assert "the 2 best trials together: " in ended.out
    assert "good under vero2023" in ended.out
    (row,) = pd.read_csv(results / "tune" / "bowl-patients-random" / "pool.csv").to_dict("records")
    assert row["protocol"] == "vero2023"
    assert "n_good_unique" not in row
