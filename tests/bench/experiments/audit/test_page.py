"""The page of an audit: self-contained, escaped, readable on a wide and a narrow screen, and on few sheets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.experiments.audit.model import Audit
from bench.experiments.audit.page import render

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MOST_BYTES = 10 * 2**20
MOST_SHEETS = 4


@pytest.fixture
def page(done: Any) -> str:
    text: str = (done.folder / "audit.html").read_text()
    return text


def test_it_loads_nothing(page: str) -> None:
    assert len(page) < MOST_BYTES
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert re.findall(r"(?:src|href)=\"(?!data:|#)", page) == []


def test_the_verdict_comes_first_and_all_parts_are_there(page: str, done: Any) -> None:
    audit = Audit.model_validate_json((done.folder / "audit.json").read_text())
    assert page.index(audit.headline) < page.index(audit.verdict[0]) < page.index("The most telling reconstructions")
    for part in ("threats", "records", "exposure", "attacks", "limits", "advice", "environment"):
        assert f'<section id="{part}">' in page
    assert page.count("<img ") == 3
    assert all(sentence in page.replace("&#39;", "'") for sentence in audit.verdict)
    assert audit.command in page
    for line in audit.limits:
        assert line in page.replace("&#39;", "'")


def test_a_term_of_the_field_stands_in_brackets_behind_plain_words(page: str) -> None:
    for plain, term in {
        "doubling all weights changes no decision": "(positively homogeneous)",
        "as at the end of a long training": "(stationary point)",
        "weights per number sought": "(equations over unknowns)",
        "lead of the right class": "(margin",
    }.items():
        assert f"{plain} {term}" in page
    assert "whose own rule is a distance" not in page


def test_each_rule_of_counting_is_told_with_the_attacks_that_it_is_of(page: str, done: Any) -> None:
    audit = Audit.model_validate_json((done.folder / "audit.json").read_text())
    assert {one.protocol for one in audit.attempts if one.found is not None} == {"buzaglo2023-unique"}
    assert "nearest-public" not in page
    assert "all records but one, the missing one counts" not in page
    rules = {"leak": "nearest-public", "half": "balle2022"}
    judged = [one.model_copy(update={"protocol": rules.get(one.attack, one.protocol)}) for one in audit.attempts]
    shown = render(audit.model_copy(update={"attempts": judged}), [])
    assert "Of leak an image counts instead if its reconstruction is nearer to it than any held-out image is" in shown
    assert "Of half, which has all records but one, the missing one counts if its reconstruction is nearer" in shown


def test_what_a_model_is_called_is_no_markup(done: Any) -> None:
    audit = Audit.model_validate_json((done.folder / "audit.json").read_text())
    evil = audit.model_copy(update={"name": "<b>mine</b>", "limits": ["<script>alert(1)</script>"]})
    shown = render(evil, [])
    assert "<b>" not in shown
    assert "<script" not in shown
    assert "most telling" not in shown


@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_is_cut_off(browser: Browser, done: Any, width: int) -> None:
    shown = browser.new_page(viewport={"width": width, "height": 900})
    asked: list[str] = []
    shown.on("request", lambda request: asked.append(request.url))
    shown.goto((done.folder / "audit.html").as_uri())

    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.locator("h1").inner_text().endswith(".")
    assert all(url.startswith(("file:", "data:")) for url in asked)
    assert sum(url.startswith("file:") for url in asked) == 1
    sizes = shown.locator("img").evaluate_all("all => all.map(one => one.naturalWidth)")
    assert sizes == [16, 16, 16]


def test_a_long_path_is_broken(browser: Browser, done: Any, tmp_path: Path) -> None:
    audit = Audit.model_validate_json((done.folder / "audit.json").read_text())
    (tmp_path / "long.html").write_text(render(audit.model_copy(update={"command": f"bench audit /{'x' * 300}"}), []))
    shown = browser.new_page(viewport={"width": 360, "height": 900})
    shown.goto((tmp_path / "long.html").as_uri())
    assert shown.evaluate("document.documentElement.scrollWidth") <= 360


def test_it_prints_on_few_sheets(browser: Browser, done: Any) -> None:
    shown = browser.new_page()
    shown.goto((done.folder / "audit.html").as_uri())
    sheets = len(re.findall(rb"/Type\s*/Page\b", shown.pdf(format="A4", print_background=True)))
    assert 0 < sheets <= MOST_SHEETS
