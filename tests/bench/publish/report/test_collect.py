"""What the report takes from a results folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

from bench.publish.leaderboard import BOARD_COLUMNS, write_tables
from bench.publish.numbers import duration
from bench.publish.report.collect import Entry, collect, gain_share
from bench.publish.report.columns import SHOWN, glossary
from bench.store.records import COLUMNS, NULLS, RunRecord, Status
from victims.errors import UserError

Scored = Callable[..., RunRecord]


def entry_of(root: Path, attack: str = "kkt", victim: str = "faces-mlp-20") -> Entry:
    entries = collect(root).entries.values()
    return next(one for one in entries if (one.row["attack"], one.row["victim"]) == (attack, victim))


def test_an_attack_competes_where_others_may_know_more(folder: Path) -> None:
    boards = {(board.victim, board.knowledge): board.rows["attack"].tolist() for board in collect(folder).boards}

    assert boards["faces-mlp-20", "architecture+class balance+weights"][0] == "kkt"
    assert set(boards["faces-mlp-20", "architecture+weights"]) == {"first-layer", "random", "slow"}


def test_across_knowledge_there_is_one_board_a_victim(folder: Path) -> None:
    boards = collect(folder, across_knowledge=True).boards
    assert sorted((board.victim, len(board.rows)) for board in boards) == [("digits-mlp-20", 1), ("faces-mlp-20", 4)]


def test_the_median_run_stands_for_its_cell(folder: Path) -> None:
    entry = entry_of(folder)

    assert entry.run is not None
    assert (entry.run["seed"], entry.run["n_good"], entry.row["n_good"]) == (2, 14, 14)
    assert (entry.files.per_sample["ssim"] > 0.4).sum() == 14
    assert entry.command.endswith("-a kkt -v faces-mlp-20 --seeds 0-2")


def test_an_image_that_no_candidate_serves_passes_no_ssim(folder: Path) -> None:
    run = entry_of(folder).run
    assert run is not None
    table = folder / "runs" / str(run["run_id"]) / "per_sample.csv"
    pd.read_csv(table).assign(candidate=lambda rows: np.where(rows["ssim"] > 0.6, -1, 0)).to_csv(table, index=False)
    ssim = entry_of(folder).files.per_sample["ssim"]

    assert (ssim == 0).sum() > 3
    assert 0.4 < ssim.max() <= 0.6


def test_of_two_runs_the_lower_stands_for_their_cell_and_no_failed_one(results: Path, scored: Scored) -> None:
    failed = scored(seed=2, n_good=1, status=Status.ERROR)
    write_tables(results, [scored(seed=0, n_good=16), scored(seed=1, n_good=12), failed])
    run = entry_of(results).run

    assert run is not None
    assert (run["seed"], run["n_good"]) == (1, 12)


def test_a_run_without_a_count_stands_for_no_cell_that_has_one(results: Path, scored: Scored) -> None:
    write_tables(
        results,
        [scored(seed=0, n_good=16), *(scored(seed=seed).model_copy(update={"n_good": None}) for seed in (1, 2))],
    )
    run = entry_of(results).run

    assert run is not None
    assert run["seed"] == 0


def test_a_cell_is_named_by_its_attack_variant_and_budget(results: Path, scored: Scored) -> None:
    write_tables(results, [scored(), scored(run_id="p", variant="paper"), scored(budget="40steps")])

    assert sorted(entry.name for entry in collect(results).entries.values()) == ["kkt", "kkt in 40steps", "kkt:paper"]


def test_a_gain_is_a_share_of_the_images(results: Path, scored: Scored) -> None:
    write_tables(results, [scored(n_good=12, n_good_unique=9)])  # one to one, of 20, where the null gets 1

    assert gain_share(entry_of(results).row) == 0.4


def test_who_measured_is_counted_for_each_instrument(results: Path, scored: Scored) -> None:
    by = {"lpips_status": "alex", "kl_status": "lenet"}
    rows = [scored(seed=seed, **by) for seed in range(2)] + [scored(seed=2, lpips_status="none", kl_status="lenet")]
    write_tables(results, [*rows, scored(seed=3, status=Status.ERROR)])
    counted = {
        name: [(row[f"{name.lower()}_status"], row["runs"]) for row in found]
        for name, found in collect(results).learned_metrics.items()
    }

    assert counted == {"LPIPS": [("alex", 2), ("none", 1)], "KL": [("lenet", 3)]}


def test_a_cell_that_only_failed_has_no_run(folder: Path) -> None:
    entry = entry_of(folder, "slow")

    assert entry.run is None
    assert (entry.row["failed"], entry.row["n_good"]) == (1, 2)


def test_failures_are_listed_with_their_log(folder: Path) -> None:
    found = {one.name: (one.run["status"], one.log) for one in collect(folder).failures}
    assert found["slow"] == ("error", "runs/slow-faces-mlp-20-s0-0123456789/log.txt")
    assert found["picky"][0] == "skipped"


def test_machines_are_counted(results: Path, scored: Scored) -> None:
    write_tables(results, [scored(seed=0), scored(seed=1), scored(seed=2, gpu="H200", device="cuda")])
    assert [(row["gpu"], row["runs"]) for row in collect(results).machines] == [("", 2), ("H200", 1)]


def test_published_tables_come_without_folders(folder: Path) -> None:
    shutil.rmtree(folder / "runs")
    entry = entry_of(folder)

    assert entry.run is not None
    assert entry.files.per_sample.empty
    assert entry.files.examples is None
    assert collect(folder).problems == []


@pytest.mark.parametrize("run_id", ["../secret", "..", ".", "", "/etc", "a/b"])
def test_a_run_id_leads_to_no_other_folder(results: Path, scored: Scored, run_id: str) -> None:
    one = scored(run_id=run_id)
    for place in (results / "runs", results / "secret", results / "runs" / "a" / "b"):
        place.mkdir(parents=True)
        (place / "run.json").write_text(one.model_dump_json())
        (place / "held_out.csv").write_text("ssim\n0.5\n")
    write_tables(results, [one])

    assert len(entry_of(results).files.held_out) == 0


def test_scores_under_another_protocol_are_not_shown(folder: Path) -> None:
    path = next((folder / "runs").glob("first-layer-*")) / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"protocol": "haim2022-min"}))

    assert entry_of(folder, "first-layer").files.per_sample.empty


@pytest.mark.parametrize("name", ["per_sample.csv", "held_out.csv", "confidence.csv", "examples.safetensors"])
def test_a_damaged_file_is_named_and_costs_only_its_run(folder: Path, name: str) -> None:
    path = next((folder / "runs").glob("first-layer-*")) / name
    path.write_bytes(b'ssim,precision,label\n"\xff\xfe,')
    report = collect(folder)

    assert len(report.problems) == 1
    assert str(path) in report.problems[0]
    assert "\n" not in report.problems[0]
    assert entry_of(folder).files.examples is not None


def test_tensors_that_do_not_fit_are_a_damaged_file(folder: Path) -> None:
    path = next((folder / "runs").glob("first-layer-*")) / "examples.safetensors"
    tensors = load_file(path)
    for change in ({"ssim": tensors["ssim"][:2]}, {"truth": np.zeros((6, 5, 8, 8), np.uint8)}):
        save_file(tensors | change, path)
        assert "examples.safetensors" in collect(folder).problems[0]


def test_grey_images_and_no_held_out_images(folder: Path) -> None:
    path = next((folder / "runs").glob("first-layer-*")) / "examples.safetensors"
    tensors = {name: value[:, :1] if value.ndim == 4 else value for name, value in load_file(path).items()}
    del tensors["nearest_held_out"]
    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, path)
    examples = entry_of(folder, "first-layer").files.examples

    assert examples is not None
    assert examples.stacks.shape == (6, 2, 8, 8, 3)
    assert (examples.stacks[..., 0] == examples.stacks[..., 2]).all()


@pytest.mark.parametrize("prepare", [lambda _: None, lambda root: write_tables(root, [])], ids=["absent", "empty"])
def test_no_runs_is_one_line(results: Path, prepare: Callable[[Path], object]) -> None:
    prepare(results)
    with pytest.raises(UserError, match=r"no runs in .*results.*bench run"):
        collect(results)


def test_only_skipped_runs_make_a_report_without_boards(folder: Path, records: list[RunRecord]) -> None:
    (folder / "runs.csv").unlink()
    write_tables(folder, records[-1:])
    report = collect(folder)

    assert (report.boards, report.entries, len(report.failures)) == ([], {}, 1)


def test_the_glossary_explains_every_column() -> None:
    meanings = glossary()

    assert set(meanings) == {*COLUMNS, *BOARD_COLUMNS}
    assert [name for name, meaning in meanings.items() if not meaning] == []
    assert meanings["null_held_out"] == f"n_good of {NULLS['null_held_out']}."
    assert "nearest held-out" in meanings["oracle_mse"]
    assert meanings["beats_oracle"].endswith("nearest held-out image.")
    assert not any("`" in meaning or "\n" in meaning for meaning in meanings.values())


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0046, "0.0046 s"), (1.5, "1.5 s"), (59.9, "60 s"), (90, "1.5 min"), (7200, "2 h"), (90000, "1.04 d")],
)
def test_durations_are_read_at_a_glance(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_number_is_written_with_its_interval_and_its_null() -> None:
    row = {"n_good": 14.5, "n_good_low": 9.7, "n_good_high": 19.2, "null_n_good": 2.0}
    assert SHOWN[0].full_text(row) == "14.5 [10, 19] (2)"
    assert SHOWN[0].full_text({"n_good": None}) == "–"
    assert SHOWN[1].full_text({"gain": -2.0, "gain_low": -4.4, "gain_high": -0.4}) == "−2 [−4, 0]"
    assert SHOWN[1].full_text({"gain": 2.25}) == "+2.2"
