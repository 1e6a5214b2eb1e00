"""Which documents `verify` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.publish.claims.check import FINDINGS, READMES, checked, documents
from bench.publish.claims.entries import Claim

ROOT = Path(__file__).parents[4]


def test_every_file_of_findings_is_checked() -> None:
    findings = {f"{FINDINGS}/{path.name}" for path in (ROOT / FINDINGS).iterdir()}
    assert len(findings) > 10
    assert {*checked(ROOT)} == {*READMES, *findings}


def test_a_new_file_of_findings_is_checked_without_a_change(tmp_path: Path) -> None:
    for name in (*READMES, f"{FINDINGS}/new.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("Of 80 images 3 of 4 come out.\n" if name.endswith("new.md") else "")
    found = [finding.why for finding in documents([], tmp_path)]
    assert found == [f"{FINDINGS}/new.md: the figure {figure} has no entry" for figure in (3, 4)]


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([{"values": {"n_good": 3}}, {"values": {"n": 4}}], []),
        ([{"values": {"n_good": 3}, "shown": (4,)}], []),
        ([{"values": {"n_good": 3}}], ["README.md: no entry gives the figure 4"]),
        ([], [f"README.md: the figure {figure} has no entry" for figure in (3, 4)]),
        (
            [{"values": {"n_good": 3}, "shown": (4,)}, {"values": {"n": 4}}],
            ["README.md: 4 is a result of one entry; take it out of `shown` of the others"],
        ),
    ],
    ids=("results of two rows", "no result", "no entry for one", "no entry at all", "a result and shown"),
)
def test_a_figure_is_a_result_or_shown_and_never_both(
    entries: list[dict[str, Any]], told: list[str], tmp_path: Path
) -> None:
    for name in READMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("Of 80 images 3 of 4 come out.\n" if name == "README.md" else "")
    claims = [Claim(text="3 of 4 come out", file="README.md", **entry) for entry in entries]
    assert [finding.why for finding in documents(claims, tmp_path)] == told
