"""The verb `study`: cells, their measures, the oracle's place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from attacking import ORDINARY, victim_of

from attacks.base import Reconstruction
from attacks.studies.base import Cell, Study
from bench.experiments.measured import BESIDE, measure, neighbours
from bench.plan import registry
from bench.plan.options import attack_params
from bench.run.artifacts import write_reconstruction
from bench.run.executors.choice import Inline
from bench.run.runner import Outcome
from bench.store.folders import Store
from bench.store.records import RunRecord, Status
from victims import datasets
from victims.datasets.tables import Units
from victims.errors import UserError

STUDY = """
from attacks.studies.base import Cell, Plot, Study

STUDIES = (
    Study(
        name="tiny-starts",
        summary="where deco ends",
        paper="nobody, 2026",
        cells=(),
        smoke=tuple(
            Cell({"a": a, "b": b}, "deco", "digits-mlp-6-wd", {"init": "mixture", "mixture": (a, b), "steps": 3})
            for a in (0.0, 1.0)
            for b in (0.0, 1.0)
        ),
        plots=(
            Plot("map", "b", "a", ("attack_loss", "mse_to_training"), logarithmic=True),
            Plot("curve", "a", "b", ("n_good", "null_n_good")),
            Plot("dots", "a", "b", ("attack_loss", "mse_to_training"), logarithmic=True),
            Plot("scatter", "a"),
        ),
    ),
)
"""
VICTIM = """
from victims.spec import MLPSpec, Regularised, VictimSpec

VICTIMS = (
    VictimSpec(
        name="digits-mlp-6-wd", dataset="digits", n=6, architecture=MLPSpec(hidden=()), training=Regularised()
    ),
)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mine")
    (folder / "study.py").write_text(STUDY + VICTIM)
    return folder


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the study is kept that is made first; no test changes it."""
    return tmp_path_factory.mktemp("kept") / "results"


@pytest.fixture
def made(bench: Callable[..., Any], folder: Path, kept: Path) -> Path:
    """The results of the study, which is made once."""
    if not kept.exists():
        words = ("study", "tiny-starts", "--smoke", "--plugin-dir", folder, "--results-dir", kept, "--device", "cpu")
        done = bench(*words)
        assert done.status == 0, done.err
    return kept


@pytest.fixture
def again(bench: Callable[..., Any], folder: Path, made: Path, results: Path) -> Callable[..., Any]:
    """Make the study again in a copy of its results."""
    shutil.copytree(made, results)
    words = ("study", "tiny-starts", "--smoke", "--plugin-dir", folder, "--results-dir", results, "--device", "cpu")
    return lambda *more: bench(*words, *more)


@pytest.fixture
def undrawn(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no picture, which takes most of the time of a study that is made again."""
    monkeypatch.setattr("bench.experiments.measured.strips", lambda *_: None)
    monkeypatch.setattr("bench.experiments.study.draw", lambda *_: None)


def test_a_study_is_a_table_and_pictures(made: Path) -> None:
    root = made / "studies" / "tiny-starts-smoke"
    table = pd.read_csv(root / "tiny-starts.csv")
    assert table[["a", "b"]].values.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert (table["status"] == "ok").all()
    assert not table["flags"].astype(str).str.contains("failed_null").any()
    truth = table[(table["a"] == 1) & (table["b"] == 1)].iloc[0]
    assert truth["mse_to_training"] < 1e-6
    assert truth["no_member_rate"] == 0
    partition = table[(table["a"] == 0) & (table["b"] == 1)].iloc[0]
    assert partition["mse_to_training"] > 1e-3
    assert partition["no_member_rate"] > 0.5
    assert (truth["n_good"], truth["share_good"]) == (6, 1)
    assert (truth["share_nearer"], truth["share_at_1pct"]) == (1, 1)
    assert (partition["share_nearer"], partition["share_at_1pct"]) == (0, 0)
    assert (table.loc[table["b"] == 0, "n_good"] == 0).all()  # from zeros nothing is shown
    assert table["share_good"].tolist() == pytest.approx((table["n_good"] / 6).tolist(), rel=1e-5)
    for picture in ("deco", "curve", "scatter"):
        assert (root / f"tiny-starts-{picture}.png").stat().st_size > 10_000
    assert (root / "tiny-starts-dots.png").stat().st_size > 5_000
    assert len(list(root.glob("*.answer.png"))) == 4
    assert not (made / "leaderboard.csv").exists()


def test_studies_are_listed_and_unknown_ones_are_one_line(bench: Callable[..., object]) -> None:
    listed = bench("study")
    assert "landscape: " in listed.out  # type: ignore[attr-defined]
    wrong = bench("study", "landscapes")
    assert wrong.status == 2  # type: ignore[attr-defined]
    assert "did you mean landscape" in wrong.err  # type: ignore[attr-defined]


def test_every_cell_of_every_study_can_be_planned() -> None:
    attacks, victims = registry.attacks(), registry.victims()
    for study in registry.studies().items.values():
        assert study.cells
        assert study.smoke
        for cell in (*study.cells, *study.smoke):
            kind = attacks.match([cell.attack])[0]
            attack = kind(attack_params(kind, "", cell.params))
            assert attack.supports(victims.match([cell.victim])[0]) is None
            drawn = {*cell.labels, "", "attack", "victim", "test_accuracy", "wall_s"}
            assert all({plot.x, plot.y} <= drawn for plot in study.plots)


def test_a_realistic_image_that_is_no_member_is_told_from_a_member() -> None:
    generator = torch.Generator().manual_seed(0)
    training, held_out = (torch.rand(3, 1, 12, 12, generator=generator) for _ in range(2))
    noise = torch.rand(1, 1, 12, 12, generator=generator)
    mean = training.mean(0)
    near = neighbours(torch.cat([training[:1], held_out[1:2], noise]) - mean, training, held_out, mean)
    assert near.realistic.tolist() == [True, True, False]
    assert near.no_member.tolist() == [False, True, False]


def test_candidates_are_measured_and_drawn_in_the_pixels_that_a_victim_standardised(
    tmp_path: Path, record: Callable[..., RunRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, store, drawn = victim_of(ORDINARY), Store(tmp_path), []
    assert victim.scale.max() < 0.9
    row = record(run_id="one", n=10)
    store.folder("one").mkdir(parents=True)
    inputs = torch.from_numpy(victim.split.inputs)
    surer = torch.tensor([torch.nan, *range(9), 99])  # NaN counts as the least
    candidates = torch.cat([inputs, torch.full_like(inputs[:1], torch.nan)])  # the last counts as no candidate
    write_reconstruction(store.folder("one"), Reconstruction(candidates, confidence=surer))
    monkeypatch.setattr("bench.experiments.measured.strips", lambda path, title, shown: drawn.append(shown[0][1]))
    study = Study(name="s", summary="", paper="", cells=(), smoke=(), plots=())
    where = measure(store, row, victim, study, Cell({}, "kkt-delta", ORDINARY.name, {}))
    assert where["mse_to_training"] == pytest.approx(0, abs=1e-10)
    assert (where["realistic"], where["no_member_rate"]) == (10 / 11, 0)
    assert where["mse_to_held_out"] > 0
    raw = torch.from_numpy(datasets.load("digits", None).train_images[victim.split.indices]).flip(0)
    torch.testing.assert_close(drawn[0], raw)


@pytest.mark.parametrize("kind", ["rows of a table", "no held-out images"])
def test_candidates_without_neighbours_have_no_columns_of_them(
    kind: str, tmp_path: Path, record: Callable[..., RunRecord]
) -> None:
    victim, store = victim_of(ORDINARY), Store(tmp_path)
    if kind == "rows of a table":
        victim = replace(
            victim, units=Units.of_rows(tuple(map(str, range(64))), victim.split.test_inputs.reshape(-1, 64))
        )
    else:
        split = replace(
            victim.split, test_inputs=victim.split.test_inputs[:0], test_labels=victim.split.test_labels[:0]
        )
        victim = replace(victim, split=split)
    row = record(run_id="one", n=10, n_good=5)
    study = Study(name="s", summary="", paper="", cells=(), smoke=(), plots=())
    where = measure(store, row, victim, study, Cell({}, "kkt-delta", ORDINARY.name, {}))
    assert [where[name] for name in BESIDE] == [None] * 4
    assert where["share_good"] == 0.5


def test_a_truncated_reconstruction_is_set_aside_and_made_again(again: Callable[..., Any], results: Path) -> None:
    root = results / "studies" / "tiny-starts-smoke"
    path = sorted(root.glob("runs/*/reconstruction.safetensors"))[0]
    path.write_bytes(path.read_bytes()[:100])
    damaged = again()
    assert damaged.status == 2
    assert f"{path} is damaged" in damaged.err
    assert "Traceback" not in damaged.err
    assert list(root.glob(f"damaged/{path.parent.name}*"))
    assert again().status == 0
    assert path.exists()


def test_an_interrupted_study_keeps_the_rows_of_cells_that_it_did_not_come_to(
    again: Callable[..., Any], undrawn: None, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = results / "studies" / "tiny-starts-smoke" / "tiny-starts.csv"
    before = path.read_text()
    path.write_text(before + before.splitlines()[-1].replace("deco-", "gone-") + "\n")
    measured: list[int] = []

    def interrupted(*arguments: Any) -> Any:
        measured.append(1)
        if len(measured) == 3:
            raise UserError("no more time")
        return measure(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("bench.experiments.study.measure", interrupted)
        assert "no more time" in again().err
    assert path.read_text().splitlines()[:5] == before.splitlines()
    assert again().status == 0
    assert path.read_text() == before, "a row of no cell is left out in the end"


def test_of_a_published_table_the_cells_are_run_that_it_lacks(
    again: Callable[..., Any], undrawn: None, results: Path
) -> None:
    root = results / "studies" / "tiny-starts-smoke"
    path = root / "tiny-starts.csv"
    before = pd.read_csv(path)
    shutil.rmtree(root / "runs")
    lacking = before.drop(2)
    lacking.loc[1, "status"] = "error"
    lacking.to_csv(path, index=False)
    assert again("--missing").status == 0
    assert sorted(run.name for run in (root / "runs").iterdir()) == sorted(before["run_id"][[1, 2]])
    after = pd.read_csv(path)
    pd.testing.assert_frame_equal(after.drop(columns="wall_s"), before.drop(columns="wall_s"))
    assert after["wall_s"][[0, 3]].tolist() == before["wall_s"][[0, 3]].tolist()


def test_a_victim_that_cannot_be_had_ends_no_study_and_costs_no_row(
    again: Callable[..., Any], undrawn: None, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = results / "studies" / "tiny-starts-smoke" / "tiny-starts.csv"
    before = path.read_text()
    execute, executed = Inline.execute, list[int]()

    def diverging(self: Inline, tasks: Any) -> Any:
        executed.append(1)
        if len(executed) != 2:
            yield from execute(self, tasks)
            return
        for outcome in execute(self, tasks):
            record = outcome.record.model_copy(update={"status": Status.ERROR, "reason": "it diverged"})
            yield Outcome(record, stored=False)

    monkeypatch.setattr(Inline, "execute", diverging)
    ended = again()
    assert ended.status == 1
    assert "it diverged" in ended.err + ended.out
    assert path.read_text() == before
