"""Files that appear whole or not at all, locks, and the parts of the tensors in a file."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from victims.files import atomic, below, exclusive, under


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_text_is_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    code = "from pathlib import Path; from victims.files import write_text; write_text(Path('text'), '\\u00e9 \\u2265')"
    ascii_alone = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    root = str(Path(__file__).parents[2])
    subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | ascii_alone | {"PYTHONPATH": root}, check=True
    )
    assert (tmp_path / "text").read_bytes() == "\u00e9 \u2265".encode()


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


def test_a_part_is_what_was_put_under_its_prefix() -> None:
    part, other = {"a.weight": torch.ones(2), "b": torch.zeros(1)}, {"begun": torch.ones(1)}
    state = under("best.", part) | other
    assert list(state) == ["best.a.weight", "best.b", "begun"]
    assert below("best.", state) == part
    assert below("worst.", state) == {}
