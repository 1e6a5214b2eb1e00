"""The boards as Markdown, LaTeX and CSV, and the verb that writes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from bench.publish.leaderboard import write_tables
from bench.publish.report import write_report
from bench.store.records import RunRecord

Scored = Callable[..., RunRecord]
Bench = Callable[..., Any]


def test_markdown_has_a_table_a_board(folder: Path) -> None:
    text = write_report(folder, form="markdown").read_text()
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]

    assert text.count("\n## ") == 3
    row = next(line for line in lines if line[1] == "kkt" and line[-1] == "3")
    assert row[0] == "1"
    assert re.fullmatch(r"14 \\\[\d+, \d+\\\] \(2\)", row[2])
    assert re.fullmatch(r"\+12 \\\[\d+, \d+\\\]", row[3])


def test_csv_has_the_rank_on_each_board(folder: Path) -> None:
    table = pd.read_csv(write_report(folder, form="csv"), dtype={"rank": str})
    ranks = table.set_index(["board_knowledge", "victim", "attack"])["rank"]

    assert len(table) == 3 + 4 + 1
    assert ranks["architecture+class balance+weights", "faces-mlp-20", "kkt"] == "1"
    assert pd.isna(ranks["architecture+weights", "faces-mlp-20", "first-layer"])  # it does not beat its null
    assert {"n_good_low", "null_n_good", "params_json"} <= set(table)


def test_latex_escapes_every_name(results: Path, scored: Scored) -> None:
    name = r"50%_of\{a}&b#1~^$x$|<c>"
    write_tables(results, [scored(name, run_id="a", victim=name)])
    text = write_report(results, form="latex").read_text()

    escaped = r"50\%\_of\textbackslash{}\{a\}\&b\#1\textasciitilde{}\textasciicircum{}\$x\$|\textless{}c\textgreater{}"
    assert text.count(escaped) == 2
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1


def test_markdown_escapes_every_name(results: Path, scored: Scored) -> None:
    write_tables(results, [scored("<b>|*a*|[x](y)\n`c`", run_id="a")])
    text = write_report(results, form="markdown").read_text()

    assert r"\<b\>\|\*a\*\|\[x\](y) \`c\`" in text


@pytest.mark.parametrize(
    ("form", "name"),
    [("html", "report.html"), ("markdown", "report.md"), ("latex", "report.tex"), ("csv", "report.csv")],
)
def test_the_verb_writes_where_it_says(bench: Bench, folder: Path, form: str, name: str) -> None:
    (folder / name).write_text("as another version wrote it")
    result = bench("report", "--format", form, "--results-dir", folder)

    assert (result.status, result.out.strip(), result.err) == (0, str(folder / name), "")
    assert (folder / name).stat().st_size > 100


@pytest.mark.parametrize("form", ["html", "markdown", "latex", "csv"])
def test_a_report_replaces_a_report_of_its_form(bench: Bench, folder: Path, tmp_path: Path, form: str) -> None:
    words = "report", "--results-dir", folder, "--format", form, "--output", tmp_path / "page"
    assert [bench(*words).status for _ in range(2)] == [0, 0]


def test_a_read_only_folder_is_reported_elsewhere(bench: Bench, folder: Path, tmp_path: Path) -> None:
    before = sorted(folder.rglob("*"))
    words = "report", "--results-dir", folder, "--across-knowledge", "--output", tmp_path / "new" / "page.html"
    assert bench(*words).status == 0
    assert (tmp_path / "new" / "page.html").exists()
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--results-dir", "nowhere"), "no runs in nowhere"),
        (("--format", "pdf"), "pdf"),
        (("--output", "/proc/page.html"), "cannot write /proc/page.html"),
        (("--output", "."), "cannot write ."),
    ],
)
def test_a_mistake_is_one_line(bench: Bench, folder: Path, arguments: tuple[str, ...], message: str) -> None:
    own = () if "--results-dir" in arguments else ("--results-dir", folder)
    result = bench("report", *own, *arguments)

    assert result.status == 2
    assert message in result.err
    assert len(result.err.strip().splitlines()) == 1
