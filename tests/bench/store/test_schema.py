"""Tables and records of every schema there was are read; those of one to come are refused in a line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.publish.compare import compare
from bench.publish.leaderboard import leaderboard, write_tables
from bench.publish.report import write_report
from bench.publish.runs_table import read_runs
from bench.store.folders import Store
from bench.store.records import COLUMNS, SCHEMA_VERSION, RunRecord
from victims.errors import UserError

GOLDEN = Path(__file__).parent / "golden"
"""Rows and a record as programs of their time wrote them: faces-mlp-20 under three attacks."""
RUN = "kkt-faces-mlp-20-s0-99e78ed271"
old = pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[int], Path]:
    def copy(version: int) -> Path:
        return Path(shutil.copytree(GOLDEN / f"schema{version}", tmp_path / "results"))

    return copy


def newer(folder: Path) -> None:
    """Make the table and the records of a folder those of a program to come."""
    version = str(SCHEMA_VERSION + 1)
    for path in folder.glob("runs/*/run.json"):
        path.write_text(path.read_text().replace('"schema_version": 1,', f'"schema_version": {version},'))
    table = folder / "runs.csv"
    table.write_text(table.read_text().replace("\n1,", f"\n{version},"))


@old
def test_an_old_table_is_read(version: int) -> None:
    runs = read_runs(GOLDEN / f"schema{version}" / "runs.csv").set_index("attack")

    assert tuple(runs.reset_index()[list(COLUMNS)].columns) == COLUMNS
    assert runs["n_good"].to_dict() == {"first-layer": 7, "kkt": 11, "random": 10}
    assert set(runs["schema_version"]) == {version}
    assert runs.loc["kkt", "victim"] == "faces-mlp-20"
    assert json.loads(str(runs.loc["kkt", "params_json"]))["restarts"] == 8
    assert runs["confidence_ap"].isna().all()
    board = leaderboard(runs.reset_index())
    assert board["attack"].iloc[0] == "kkt"


@old
def test_an_old_record_is_read(version: int) -> None:
    (record,) = Store(GOLDEN / f"schema{version}").records()

    assert (record.run_id, record.schema_version, record.n_good) == (RUN, version, 11)
    assert record.confidence_ap is None


@old
def test_an_old_folder_is_reported_compared_and_added_to(
    copied: Callable[[int], Path], version: int, record: Callable[..., RunRecord]
) -> None:
    folder = copied(version)
    assert compare(folder / "runs.csv", folder / "runs.csv").same == 3
    assert "faces-mlp-20" in write_report(folder).read_text()
    write_tables(folder, [record()])
    runs = pd.read_csv(folder / "runs.csv")
    assert sorted(runs["schema_version"]) == [version] * 3 + [SCHEMA_VERSION]
    assert set(runs["victim"]) == {"faces-mlp-20", "faces-mlp-4"}
    assert compare(GOLDEN / f"schema{version}" / "runs.csv", folder / "runs.csv").same == 3


@old
def test_an_old_record_is_shown(bench: Callable[..., Any], version: int) -> None:
    shown = bench("show", RUN, "--results-dir", GOLDEN / f"schema{version}")

    assert shown.status == 0
    assert "buzaglo2023" in shown.out


@pytest.mark.parametrize("verb", ["run", "score", "report", "compare", "show"])
def test_a_newer_schema_is_refused(
    bench: Callable[..., Any], plugins: Path, copied: Callable[[int], Path], verb: str
) -> None:
    folder = copied(1)
    newer(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    words = {
        "run": ["-a", "tiny", "-v", "faces-mlp-4-tiny", "--plugin-dir", plugins, "--results-dir", folder],
        "compare": [folder / "runs.csv", GOLDEN / "schema1" / "runs.csv"],
        "show": [RUN, "--results-dir", folder],
    }.get(verb, ["--results-dir", folder])
    ended = bench(verb, *words)

    assert ended.status == 2
    assert f"has schema {SCHEMA_VERSION + 1}, this program reads {SCHEMA_VERSION}; update the program" in ended.err
    assert ended.err.count("\n") == 1
    assert before.items() == {path: path.read_bytes() for path in before}.items()
    assert [path for path in folder.rglob("*") if path.is_file() and ".work" not in path.parts] == list(before)


def test_a_record_in_another_folder_than_its_own_is_none(tmp_path: Path, record: Callable[..., RunRecord]) -> None:
    folder = tmp_path / "runs" / "innocent"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(record(run_id="../../elsewhere").model_dump_json())

    assert list(Store(tmp_path).records()) == []
    assert Store(tmp_path).attacked() == []
    assert Store(tmp_path).find("innocent") is None


@pytest.mark.parametrize("version", ["0", "-1", "two", "2.5", ""])
def test_a_schema_that_never_was_is_refused(tmp_path: Path, version: str) -> None:
    text = (GOLDEN / "schema1" / "runs.csv").read_text()
    head, _, rows = text.partition("\n")
    (tmp_path / "runs.csv").write_text(f"{head}\n{version}{rows[1:]}")
    with pytest.raises(UserError, match="expected 1 to"):
        read_runs(tmp_path / "runs.csv")


def test_a_renamed_column_keeps_its_values(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "schema4", tmp_path, dirs_exist_ok=True)
    pd.read_csv(tmp_path / "runs.csv").assign(hit_rate=0.25).to_csv(tmp_path / "runs.csv", index=False)
    (path,) = tmp_path.glob("runs/*/run.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "hit_rate": 0.125}))

    assert set(read_runs(tmp_path / "runs.csv")["base_rate"]) == {0.25}
    assert [record.base_rate for record in Store(tmp_path).records()] == [0.125]
