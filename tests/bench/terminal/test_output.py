"""What the program prints, where nobody takes it and where not every character can be written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Bench = Callable[..., Any]
FULL = Path("/dev/full")
PLAN = ["run", "--dry-run", "--results-dir", "/no/such/folder"]


def ended(*words: object, stdout: object, **variables: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "bench", *map(str, words)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, check=False, env=os.environ | variables)  # type: ignore[call-overload]


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [["list"], ["--help"], ["show", "kkt"], PLAN, ["study"]], ids=" ".join)
def test_a_full_disk_behind_stdout_is_one_line(words: list[str]) -> None:
    with FULL.open("w") as full:
        done = ended(*words, stdout=full)

    assert done.returncode == 2
    assert done.stderr == b"bench: the output, or a file, cannot be written: No space left on device\n"


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    done = ended("list", stdout=write)
    os.close(write)

    assert (done.returncode, done.stderr) == (1, b"")


def test_a_terminal_that_knows_ascii_alone_is_shown_escapes(tmp_path: Path) -> None:
    plugin = tmp_path / "grüße.py"
    plugin.write_text("raise ValueError('größer als 1 \u202e \x1b[31m')")
    done = ended("list", "--plugin-dir", plugin, stdout=subprocess.PIPE, PYTHONIOENCODING="ascii")

    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"gr\xfc\xdfe.py: ValueError: gr\xf6\xdfer als 1 \u202e \x1b[31m" in done.stdout


def test_a_complaint_that_nobody_takes_leaves_its_exit_status() -> None:
    with FULL.open("w") as full:
        command = [sys.executable, "-m", "bench", "fly"]
        assert subprocess.run(command, stderr=full, stdout=full, check=False).returncode == 2


@pytest.mark.parametrize(("words", "status"), [("show kkt", 0), ("fly", 2)])
def test_closed_streams_are_no_error(words: str, status: int) -> None:
    command = f"exec {sys.executable} -m bench {words} >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], check=False).returncode == status
