"""What a study does with the rows of its former table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from attacks.studies.base import Cell
from bench.experiments.measured import INFORMED
from bench.experiments.study import former_rows
from bench.run.executors.choice import Inline
from bench.run.runner import Outcome
from bench.run.session import Session
from bench.store.cells import to_csv
from bench.store.records import ALIGNED_NULLS, NULLS, ScoreState, Status
from victims.errors import UserError

STUDY = """
from attacks.studies.base import Cell, Plot, Study
from victims.spec import MLPSpec, Regularised, VictimSpec

VICTIMS = (
    VictimSpec(
        name="digits-mlp-6-wd", dataset="digits", n=6, architecture=MLPSpec(hidden=()), training=Regularised()
    ),
)
SMOKE = tuple(Cell({"a": a}, "deco", "digits-mlp-6-wd", {"steps": steps}) for a, steps in (("1e-4", 1), ("NA", 2)))
PLOTS = (Plot("curve", "a"),)
STUDIES = (Study(name="tiny", summary="two runs", paper="nobody, 2026", cells=(), smoke=SMOKE, plots=PLOTS),)
"""


@pytest.fixture
def path(results: Path) -> Path:
    """The study's table."""
    return results / "studies" / "tiny-smoke" / "tiny.csv"


@pytest.fixture
def study(bench: Callable[..., Any], tmp_path: Path, results: Path) -> Callable[..., Any]:
    file = tmp_path / "mine.py"
    file.write_text(STUDY)
    words = ("study", "tiny", "--smoke", "--plugin-dir", file, "--results-dir", results, "--device", "cpu")
    return lambda *more: bench(*words, *more)


def absent(*_: object) -> str:
    raise UserError("dataset digits is absent")


def test_rows_of_cells_that_were_not_made_again_stay_whatever_data_are_at_hand(
    study: Callable[..., Any], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert study().status == 0
    before = path.read_text()
    with monkeypatch.context() as moved:
        moved.setattr(Session, "victim_key", absent)
        assert study("--missing").status == 0
    assert path.read_text() == before

    execute, executed = Inline.execute, list[int]()

    def absent_from_the_second_on(self: Inline, tasks: Any) -> Any:
        executed.append(1)
        for outcome in execute(self, tasks):
            lost = outcome.record.model_copy(update={"status": Status.ERROR, "run_id": "deco-absent"})
            yield outcome if len(executed) == 1 else Outcome(lost, stored=False)
        monkeypatch.setattr(Session, "victim_key", absent)

    monkeypatch.setattr(Inline, "execute", absent_from_the_second_on)
    assert study().status == 1
    assert path.read_text() == before


def test_a_table_holds_the_count_of_each_null_control(study: Callable[..., Any], path: Path) -> None:
    assert study().status == 0
    table = pd.read_csv(path)
    assert table[list(NULLS)].notna().any().to_dict() == {
        "null_random": True, "null_mean_image": True, "null_held_out": True,
        "null_untrained": False, "null_disjoint": False,
    }, "studies attack no twins"  # fmt: skip
    assert table[list(NULLS)].max(axis=1).tolist() == table["null_n_good"].tolist()
    assert set(ALIGNED_NULLS) < set(INFORMED)


def test_pictures_are_drawn_again_without_a_run(
    study: Callable[..., Any], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert study("--pictures").status == 2, "there is no table"
    assert study().status == 0
    shutil.rmtree(path.parent / "runs")
    picture, before = path.with_name("tiny-curve.png"), path.read_text()
    picture.unlink()
    monkeypatch.setattr(Inline, "execute", absent)
    assert study("--pictures").status == 0
    assert picture.exists()
    assert path.read_text() == before
    assert not (path.parent / "runs").exists()


def test_a_cell_whose_scoring_failed_is_missing(
    study: Callable[..., Any], path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("bench.scoring.evaluation.evaluate", absent)
        assert study().status == 1
    assert "n_good" not in pd.read_csv(path)
    assert study("--missing").status == 0
    table = pd.read_csv(path)
    assert (table["status"] == "ok").all() and table["n_good"].notna().all()
    monkeypatch.setattr(Inline, "execute", absent)  # nothing is missing any more
    assert study("--missing").status == 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"status": Status.ERROR, "reason": "no luck", "n_good": None}, "error: no luck"),
        ({"status": Status.SKIPPED, "reason": "not its kind", "n_good": None}, "skipped: not its kind"),
        ({"scores": ScoreState.FAILED, "scores_reason": "disk: full", "n_good": None}, "its scores failed: disk: full"),
    ],
)
def test_a_row_with_measures_stays_if_its_cell_now_ends_without(
    study: Callable[..., Any], path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], told: str
) -> None:
    assert study().status == 0
    before, execute = path.read_text(), Inline.execute

    def fails(self: Inline, tasks: Any) -> Any:
        for outcome in execute(self, tasks):
            yield Outcome(outcome.record.model_copy(update=changes))

    monkeypatch.setattr(Inline, "execute", fails)
    ended = study()
    assert ended.status == 1
    assert " ".join((ended.out + ended.err).split()).count(f"{told}; its former row stays") == 2
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("text", "told"), [("a,b\n1\n", "is cut short"), ("a,b\n1,2\n", "has no column attack"), ("", "it is empty")]
)
def test_a_table_that_cannot_be_read_is_not_written_over(
    study: Callable[..., Any], path: Path, text: str, told: str
) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    ended = study()
    assert ended.status == 2
    assert told in " ".join(ended.err.split())
    assert path.read_text() == text


@pytest.mark.parametrize("label", ["1e-4", 0.0001, "NA", "", "'a", 3])
def test_a_row_is_found_by_its_labels_whatever_type_they_are_read_as(tmp_path: Path, label: str | float) -> None:
    path, cell = tmp_path / "s.csv", Cell({"scale": label}, "deco", "v")
    row = {"attack": "deco", "victim": "v", "scale": label, "status": "ok", "run_id": "one"}
    path.write_text(to_csv(pd.DataFrame([row | {"victim": "w", "run_id": "two"}, row])))
    (found,) = former_rows(path, [cell, Cell(cell.labels, "deco", "x")]).values()
    assert found == row


@pytest.mark.parametrize("name", ["attack", "victim"])
def test_a_label_takes_no_other_column_s_place(name: str) -> None:
    with pytest.raises(ValueError, match=f"call the label '{name}'"):
        Cell({name: "a"}, "deco", "v")
