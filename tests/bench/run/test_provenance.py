"""What a row says of where it comes from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench.run import provenance


def test_a_checkout_without_the_program_git_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    (tmp_path / ".git").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.git_commit() == ""


def test_a_commit_whose_code_was_changed_since_is_called_dirty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    for name in ("attacks", "results"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("before")
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "."), (*author, "commit", "-q", "-m", "first")):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    commit = provenance.git_commit()
    (tmp_path / "results" / "file").write_text("a run's table")
    assert len(commit) >= 7 and provenance.git_commit() == commit
    (tmp_path / "attacks" / "file").write_text("after")
    assert provenance.git_commit() == f"{commit}-dirty"
