"""Which documents `verify` reads."""

from __future__ import annotations

from pathlib import Path

from bench.publish.claims.check import FINDINGS, READMES, checked, documents

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
