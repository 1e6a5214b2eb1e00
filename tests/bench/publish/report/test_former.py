"""What a report keeps of an earlier one, once the folders of the runs are gone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench.publish.leaderboard import write_tables
from bench.publish.merge import merge
from bench.publish.report import write_report
from bench.publish.report.collect import Entry, collect
from bench.publish.report.former import former
from bench.store.records import RunRecord

Scored = Callable[..., RunRecord]


def pictured(root: Path) -> list[Entry]:
    return [entry for entry in collect(root).entries.values() if entry.files.examples is not None]


@pytest.fixture
def bare(built: Path, results: Path) -> Path:
    """A copy of `built` with its report and tables, without its runs."""
    shutil.copytree(built, results, ignore=shutil.ignore_patterns("runs"))
    return results


def test_a_report_without_run_folders_is_the_same_page(built: Path, bare: Path) -> None:
    with_folders = (built / "report.html").read_text()
    without = write_report(bare).read_text()

    logs = re.compile(r"<code>runs/[^<]*log.txt</code>")  # of failed runs, which no report holds
    assert without == logs.sub("–", with_folders)
    assert write_report(bare).read_text() == without


def test_pictures_come_back_as_the_folder_has_them(built: Path, bare: Path) -> None:
    kept, whole = ({entry.row["attack"]: entry.files.examples for entry in pictured(root)} for root in (bare, built))

    assert kept.keys() == whole.keys() and len(kept) == 3
    for attack, examples in kept.items():
        first = whole[attack]
        assert examples is not None and first is not None
        assert examples.image.tolist() == first.image.tolist() and examples.group.tolist() == first.group.tolist()
        np.testing.assert_array_equal(examples.stacks, first.stacks)
        np.testing.assert_array_equal(examples.ssim, first.ssim)


def test_a_merged_report_keeps_the_pictures_of_both(bare: Path, tmp_path: Path, records: list[RunRecord]) -> None:
    shown = {entry.row["attack"] for entry in pictured(bare)}
    one, other = tmp_path / "one", tmp_path / "other"
    for root, kept in ((one, {"first-layer"}), (other, shown - {"first-layer"})):
        shutil.copytree(bare, root)
        (root / "runs.csv").unlink()
        write_tables(root, [record for record in records if record.attack in kept])
        write_report(root)
    merge([one, other], tmp_path / "both")
    assert {entry.row["attack"] for entry in pictured(tmp_path / "both")} == shown and len(shown) == 3


def test_a_run_that_was_made_again_does_not_keep_the_pictures_of_the_former(
    bare: Path, records: list[RunRecord]
) -> None:
    again = {"started_utc": "2026-01-01T00:00:00+00:00"}
    write_tables(bare, [one.model_copy(update=again) if one.attack == "first-layer" else one for one in records])

    assert "first-layer" not in {entry.row["attack"] for entry in pictured(bare)}
    assert {entry.row["attack"] for entry in pictured(bare)} == {"kkt", "random"}


def test_a_run_that_two_protocols_scored_keeps_the_figures_of_each(bare: Path, records: list[RunRecord]) -> None:
    again = [one.model_copy(update={"protocol": "haim2022"}) for one in records if one.attack == "first-layer"]
    write_tables(bare, [*records, *again])
    sizes = []
    for _ in range(2):
        sizes.append(len(write_report(bare).read_text()))
        shown = [entry for entry in pictured(bare) if entry.row["attack"] == "first-layer"]
        assert [entry.row["protocol"] for entry in shown] == ["buzaglo2023"]

    assert sizes[0] == sizes[1]


def test_a_folder_comes_before_the_report(folder: Path, built: Path) -> None:
    shutil.copy(built / "report.html", folder)
    for entry in pictured(folder):
        assert entry.files.drawn == () and len(entry.files.per_sample)


def test_what_a_report_shows_of_a_run_stays_when_its_files_are_damaged(folder: Path, built: Path) -> None:
    shutil.copy(built / "report.html", folder)
    path = next((folder / "runs").glob("first-layer-*")) / "examples.safetensors"
    path.write_bytes(b"damaged")

    assert str(path) in collect(folder).problems[0]
    assert "first-layer" in {entry.row["attack"] for entry in pictured(folder)}


NO_REPORTS = ("", "no page", '<figure data-run="a b" data-group="best" data-image="1" data-ssim="1">')


@pytest.mark.parametrize("page", NO_REPORTS)
def test_what_is_no_report_keeps_nothing(tmp_path: Path, page: str) -> None:
    (tmp_path / "report.html").write_text(page)

    assert former(tmp_path / "report.html") == {}
    assert former(tmp_path / "none.html") == {}


@pytest.mark.parametrize("encoded", ["AAAA", "!", ""])
def test_damaged_pictures_are_left_out_and_figures_stay(built: Path, tmp_path: Path, encoded: str) -> None:
    page = (built / "report.html").read_text()
    (tmp_path / "report.html").write_text(re.sub(r"(<img src=\"data:image/webp;base64,)[^\"]*", rf"\1{encoded}", page))
    whole, kept = (former(folder / "report.html") for folder in (built, tmp_path))

    assert {run: files.drawn for run, files in kept.items()} == {run: files.drawn for run, files in whole.items()}
    assert all(files.examples is None for files in kept.values())


@pytest.mark.parametrize(
    "foreign",
    [
        '<meta http-equiv="refresh" content="0; url=https://example.org">',
        "<style>body { display: none }</style>",
        '<g onload="alert(1)"/>',
        '<g id="a"onload="alert(1)"/>',
        "<g onload=alert(1)/>",
        '<a href="https://example.org"><text>more</text></a>',
        '<image href="https://example.org/a.png"/>',
        "<image href='#'/>",
        '<use xlink:href="javascript:alert(1)"/>',
        "<!-- a word -->",
        "<g",
    ],
)
def test_a_figure_that_does_more_than_draw_is_left_out(built: Path, tmp_path: Path, foreign: str) -> None:
    page = (built / "report.html").read_text()
    shutil.copy(built / "report.html", tmp_path)
    whole = former(tmp_path / "report.html")
    figure = re.compile(r'(<figure data-run="[^"]*"><svg.*?)(</svg>)', re.DOTALL)
    (tmp_path / "report.html").write_text(figure.sub(lambda found: found[1] + foreign + found[2], page, count=1))
    kept = former(tmp_path / "report.html")

    assert sum(len(files.drawn) for files in kept.values()) == sum(len(files.drawn) for files in whole.values()) - 1
    assert not any(f"{foreign}</svg>" in panel.svg for files in kept.values() for panel in files.drawn)


@pytest.mark.parametrize("ssim", ["1.2.3", "e", ""])
def test_a_picture_without_a_number_is_left_out(built: Path, tmp_path: Path, ssim: str) -> None:
    page = (built / "report.html").read_text()
    (tmp_path / "report.html").write_text(re.sub(r'data-ssim="[^"]*"', f'data-ssim="{ssim}"', page))

    assert all(files.examples is None for files in former(tmp_path / "report.html").values())
