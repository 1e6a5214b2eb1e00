"""Files that appear whole or not at all, and hashes that tell every file apart."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from victims.files import atomic, exclusive, sha256_sources


def test_sources_of_one_name_in_two_folders_both_count(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "same.py", tmp_path / "b" / "same.py"]
    for path in paths:
        path.parent.mkdir()
        path.write_text("x = 1")
    before = sha256_sources(paths)
    for path in paths:
        path.write_text("x = 2")
        after = sha256_sources(paths)
        assert after != before
        before = after


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_who_waits_for_a_lock_says_so_once(tmp_path: Path) -> None:
    said: list[str] = []
    entered = threading.Event()

    def second() -> None:
        with exclusive(tmp_path / "lock", lambda: said.append("waiting")):
            entered.set()

    with exclusive(tmp_path / "lock", lambda: said.append("nobody is there")):
        thread = threading.Thread(target=second)
        thread.start()
        assert not entered.wait(0.3)
        assert said == ["waiting"]
    thread.join(10)
    assert entered.is_set()
    assert said == ["waiting"]
