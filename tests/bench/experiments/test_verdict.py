"""The sentences at the end of a sweep: the counts of the best row, its null, and no triumph without a lead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.experiments.sweep import _line, _picture
from bench.experiments.verdict import Given, verdict
from bench.run.setup import Setup
from bench.store.folders import Store
from bench.store.records import RunRecord, Status


def row(**fields: Any) -> RunRecord:
    known = {
        **{"run_id": "a", "status": Status.OK, "attack": "mine", "params_hash": "", "params_json": "{}"},
        **{"knowledge": "architecture+weights", "tuned_by": "default", "victim": "v", "dataset": "d", "n": 100},
        **{"seed": 0, "protocol": "buzaglo2023", "metric_suite": "2", "device": "cpu", "cpu": "", "torch": ""},
        **{"bench_version": "", "started_utc": ""},
    }
    return RunRecord(**{**known, **fields})


def test_counts_are_one_to_one_beside_their_null(tmp_path: Path) -> None:
    best = row(n_good=74, n_good_unique=70, null_n_good=19, null_n_good_unique=7, null_random=3, null_held_out=19)
    first, second, third = verdict([best], tmp_path / "grid.png")
    alone = "each from a candidate of its own"
    assert first == f"70 of 100 training images came out of v, {alone}, by mine, which knew architecture, weights."
    line = _line(best.model_copy(update={"wall_s": 1, "train_s": 1}))
    assert f"of 100 images, 70 (chance 7), {alone}; where a candidate may serve several, good 74 (chance 19)" in line
    assert second.startswith("Chance gets 7: the strictest of 2 null controls")
    assert str(tmp_path / "grid.png") in third


def test_a_run_that_is_not_ahead_of_chance_shows_nothing() -> None:
    _, second, third = verdict(
        [row(n_good=35, n_good_unique=30, null_n_good=35, null_n_good_unique=30, null_random=35)]
    )
    assert "shows nothing" in second
    assert "-a '*' -v v" in third


@pytest.mark.parametrize(("null", "alike"), [(49, False), (50, True)])
def test_where_chance_gets_half_another_protocol_is_named(null: int, alike: bool, tmp_path: Path) -> None:
    fields = {"n_good": 30, "n_good_unique": 30, "null_n_good_unique": null, "null_held_out": null}
    last = verdict([row(**fields)], given=Given(results=("--results-dir", "there")))[-1]
    told = "`python -m bench score -v v --protocol nearest-public --results-dir there` counts what is nearer"
    assert (told in last) == alike
    assert "`python -m bench run -a '*' -v v --results-dir there`" in last
    for other in ({"protocol": "nearest-public"}, {"n": 9}, {"null_held_out": None, "null_random": null}):
        assert "nearest-public" not in verdict([row(**fields | other)])[-1]


def test_of_several_runs_the_sentence_names_the_seed_and_the_mean() -> None:
    rows = [
        row(seed=0, run_id="a", n_good=3, n_good_unique=3, null_n_good_unique=2, null_random=2),
        row(seed=1, run_id="b", n_good=2, n_good_unique=2, null_n_good_unique=2, null_random=2),
        row(attack="other", n_good=9, n_good_unique=9, null_n_good_unique=9, null_random=9),
    ]
    told = "by mine with seed 0, which knew architecture, weights; the mean of its 2 runs is 2.5 where chance gets 2."
    assert verdict(rows)[0].endswith(told)
    trainings = [rows[0], rows[0].model_copy(update={"victim_seed": 4, "null_n_good_unique": 0})]
    assert "by mine on training 4, which" in verdict(trainings)[0]


def test_nothing_is_said_of_the_candidates_of_no_image() -> None:
    first = verdict([row(n_good=0, n_good_unique=0, null_n_good_unique=3, null_random=3)])[0]
    assert first == "0 of 100 training images came out of v by mine, which knew architecture, weights."


def test_the_run_with_the_largest_lead_is_told() -> None:
    rows = [
        row(attack="loud", n_good=90, n_good_unique=90, null_n_good_unique=89, null_random=89),
        row(attack="good", n_good=50, n_good_unique=50, null_n_good_unique=5, null_random=5),
        row(attack="random", n_good=99, n_good_unique=99, null_n_good_unique=0, null_random=0, control=True),
    ]
    assert "by good" in verdict(rows)[0]


@pytest.mark.parametrize("fields", [{}, {"status": Status.ERROR}, {"n_good": 5, "control": True}])
def test_nothing_is_said_without_a_score(fields: dict[str, Any]) -> None:
    assert verdict([row(**fields)]) == []


def test_the_unknown_records_of_a_table_are_rows() -> None:
    best = row(n_good=9, null_n_good=2, null_shuffled=2, n_fixed=99, dataset="cancer", protocol="balle2022")
    assert "cannot have seen those rows" in verdict([best])[1]


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"status": Status.OOM}, "each `run` runs it again"),
        ({"status": Status.ERROR, "flags": "environment"}, "each `run` runs it again"),
        ({"status": Status.ERROR}, "--retry-failed runs it again"),
    ],
)
def test_a_failure_says_what_runs_it_again(fields: dict[str, Any], hint: str) -> None:
    assert f"(stored; {hint})" in _line(row(**fields), cached=True)


def test_what_was_not_counted_is_not_told() -> None:
    counted = {"n_good": 3, "n_good_unique": 3, "n_good_haim_min": 3, "n_good_haim_mean": 3, "wall_s": 1, "train_s": 1}
    assert "held-out" not in _line(row(**counted))
    assert "2 above the SSIM that 1% of the held-out ones pass" in _line(row(**counted, n_good_at_1pct=2))
    assert "may serve several" not in _line(row(**counted, protocol="nearest-public"))


def test_a_row_without_null_says_so() -> None:
    assert "not known" in verdict([row(n_good=5, n_good_unique=5)])[1]


def test_the_picture_is_of_the_run_that_the_sentences_speak_of(tmp_path: Path) -> None:
    """A control may lead by its count; its picture shows chance."""
    store = Store(tmp_path)
    rows = [
        row(run_id="control", n_good=99, n_good_unique=99, null_n_good_unique=0, control=True),
        row(run_id="attack", n_good=50, n_good_unique=50, null_n_good_unique=5),
    ]
    for record in rows:
        folder = store.folder(record.run_id)
        folder.mkdir(parents=True)
        (folder / "grid.png").touch()
    assert _picture(store, rows) == store.folder("attack") / "grid.png"


def setup(**given: Any) -> Setup:
    folders: dict[str, Any] = {"results_dir": Path("results"), "data_dir": None, "plugin_dir": None, "twins": True}
    return Setup(**(folders | given), device="cpu")


def test_the_next_command_leads_to_the_same_folders_and_the_same_retraining(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_DATA_DIR", "known")
    lost, won = row(n_good=3, n_good_unique=3, victim_seed=2), row(n_good=3, n_good_unique=3, null_n_good_unique=0)
    won.null_random = 0
    given = Given.of(setup(results_dir=Path("my results"), data_dir=Path("d"), plugin_dir=Path("p")))
    options = "--data-dir d --plugin-dir p --results-dir 'my results'`"
    assert f"`python -m bench run -a '*' -v v --victim-seeds 2 {options} tries" in verdict([lost], None, given)[2]
    sentence = verdict([won], None, given)[2]
    assert "`python -m bench report --results-dir 'my results'`" in sentence
    assert "`python -m bench list --plugin-dir p`" in sentence
    assert Given.of(setup(data_dir=Path("known"))) == Given()
    quick = verdict([lost], None, Given.of(setup(twins=False)))[2]
    assert "`python -m bench run -a '*' -v v --victim-seeds 2 --controls quick` tries" in quick
