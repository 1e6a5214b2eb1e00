"""What a row says of where it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.run import provenance


def test_a_checkout_without_the_program_git_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.git_commit() == ""
