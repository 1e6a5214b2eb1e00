"""What the papers report, beside what was measured here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.plan import registry
from bench.publish import published as module
from bench.publish.claims import read_claims
from bench.publish.leaderboard import BOARD_COLUMNS, write_tables
from bench.publish.published import Published, beside, published
from bench.publish.report.profiles import reported_accuracy
from bench.store.records import RunRecord

Make = Callable[..., RunRecord]
ACCURACY = ("kkt", "test_accuracy")


def stated(**changes: Any) -> Published:
    told = {"attack": "kkt", "victim": "v", "column": "mse_mean", "value": 0.5, "source": "A", "link": "https://a.b"}
    return Published.model_validate(told | changes)


def lines(folder: Path, *records: RunRecord) -> list[list[str]]:
    """The rows below the heading, cells by row, without the heads of the table."""
    write_tables(folder, list(records))
    section = (folder / "leaderboard.md").read_text().partition("## Beside the papers")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_the_papers_number_stands_beside_ours_and_its_null_with_its_link(record: Make, tmp_path: Path) -> None:
    entry = published()[0]
    counts = {"n_good_haim_min": 155, "null_n_good_haim_min": 31, "test_accuracy": None}
    told = {"attack": entry.attack, "victim": entry.victim}
    set_otherwise = {"tuned_by": "user", "params_json": '{"steps": 1}', "params_hash": "x"}
    other = record(**told, **set_otherwise, **(counts | {"n_good_haim_min": 160}))
    rows = lines(tmp_path, record(**told, **counts), other)

    written = ["155 (null 31)", f"[17]({entry.link})", entry.source]
    assert rows == [[f"`{entry.attack}`", f"`{entry.victim}`", f"`{entry.column}`", *written]]


def test_several_numbers_of_one_column_stand_in_their_order(
    record: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = (stated(), stated(source="B", value=0.25), stated(victim="w", source="C"))
    monkeypatch.setattr(module, "published", lambda: entries)
    monkeypatch.setattr("bench.publish.board_page.published", lambda: entries)
    rows = lines(tmp_path, record(victim="v", mse_mean=0.01648), record(victim="u", mse_mean=0.1))

    assert [row[3:] for row in rows] == [
        ["0.0165", "[0.5](https://a.b)", "A"],
        ["0.0165", "[0.25](https://a.b)", "B"],
    ]


def test_a_number_stands_beside_the_rows_of_its_parameters_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    row: dict[Any, Any] = {"attack": "kkt", "victim": "v", "params": "steps=1", "mse_mean": 0.1}
    for params, stands in ((None, True), ("steps=1", True), ("steps=2", False), ("", False)):
        entry = stated(params=params)
        monkeypatch.setattr(module, "published", lambda told=entry: (told,))
        assert beside(row) == ([("0.1", entry)] if stands else [])


def test_what_the_papers_published_names_attacks_and_victims_that_there_are() -> None:
    attacks, victims = registry.attacks().items, registry.victims().items
    for entry in published():
        assert entry.attack in attacks and entry.victim in victims and entry.column in BOARD_COLUMNS
        assert entry.link.startswith("https://arxiv.org/abs/")
    assert len(set(published())) == len(published())


def test_the_accuracies_of_a_paper_are_those_that_its_victims_name() -> None:
    told = {entry.victim: entry.value for entry in published() if (entry.attack, entry.column) == ACCURACY}
    assert told == {name: reported_accuracy(name) for name in told}
    assert len(told) == 12


def test_each_paper_is_one_that_the_attacks_list() -> None:
    papers = (registry.ROOT / "attacks" / "README.md").read_text()
    for entry in published():
        paper = entry.source.partition(",")[0].partition(";")[0]
        assert f"| {paper} |" in papers and entry.link in papers
    for claim in read_claims(registry.ROOT / "results" / "claims.toml"):
        paper = claim.source.partition(",")[0].partition(";")[0]
        assert not paper or f"| {paper} |" in papers or "arXiv" in claim.source, claim.text
