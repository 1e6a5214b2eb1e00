"""Plug-ins that end the process that imports them, or never end: each costs only itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.plan import rehearsal

Bench = Callable[..., Any]
WHOLE = "from victims.spec import VictimSpec\nVICTIMS = (VictimSpec(name='whole-mlp-4', dataset='faces', n=4),)\n"
DEADLY: dict[str, tuple[str, str]] = {
    "leaves": ("import os\nos._exit(0)\n", "its import ends the process with exit status 0"),
    "crashes": ("import os\nos.abort()\n", "its import ends the process by SIGABRT"),
    "terminates": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n",
        "its import ends the process by SIGTERM",
    ),
    "interrupts": ("raise KeyboardInterrupt\n", "KeyboardInterrupt"),
    "generates": ("raise GeneratorExit('gone')\n", "GeneratorExit: gone"),
    "own_kind": ("class Own(BaseException): pass\nraise Own('mine')\n", "Own: mine"),
    "sleeps": ("import time\ntime.sleep(3600)\n", "its import takes more than 5 s"),
}
LISTING = """
import sys
from bench.plan import rehearsal
from bench.cli.main import main
rehearsal.LIMIT_SECONDS = 5.0
main()
"""


def listed(process: Bench, folder: Path) -> Any:
    return process("-c", LISTING, "list", "--plugin-dir", folder)


def test_what_ends_the_process_costs_only_itself(process: Bench, tmp_path: Path) -> None:
    for name, (content, _) in DEADLY.items():
        (tmp_path / f"{name}.py").write_text(content)
    (tmp_path / "whole.py").write_text(WHOLE)
    ended = listed(process, tmp_path)

    assert (ended.status, ended.err) == (0, "")
    assert "whole-mlp-4" in ended.out
    broken = [line for line in ended.out.splitlines() if line.startswith("does not import")]
    for name, (_, reason) in DEADLY.items():
        assert any(f"{name}.py: {reason}" in line for line in broken)
    assert len(broken) == len(DEADLY)


def test_what_a_rehearsed_file_prints_is_not_seen_twice(process: Bench, tmp_path: Path) -> None:
    (tmp_path / "whole.py").write_text(f"print('hello')\n{WHOLE}")
    assert process("-m", "bench", "list", "--plugin-dir", tmp_path).out.count("hello") == 1


def test_the_processes_of_runs_know_the_verdict(
    followed: Bench, plugins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process rehearses as one does that has no torch yet, and sets the variable after the server was started."""
    monkeypatch.setattr(rehearsal, "sys", SimpleNamespace(modules={}))
    monkeypatch.setattr(rehearsal, "threading", SimpleNamespace(active_count=lambda: 1))
    monkeypatch.setattr(rehearsal, "_tried", set())
    monkeypatch.setenv(rehearsal.VERDICTS, "{}")
    (tmp_path / "tiny.py").write_bytes((plugins / "tiny.py").read_bytes())
    (tmp_path / "leaves.py").write_text(DEADLY["leaves"][0])
    words = ("run", "-a", "tiny", "-v", "faces-mlp-4-tiny", "--plugin-dir", tmp_path, "--results-dir", tmp_path / "r")
    ended = followed({}, *words, "--device", "cpu", "--controls", "quick", "--jobs", "1")

    assert ended.status == 0, ended.err
    assert "leaves.py: its import ends the process" in ended.err
    (row,) = (tmp_path / "r" / "runs").glob("*/run.json")
    assert json.loads(row.read_text())["status"] == "ok"


def test_any_exception_of_an_import_is_a_reason(tmp_path: Path) -> None:
    from bench.plan import registry

    (tmp_path / "own.py").write_text(DEADLY["own_kind"][0])
    (tmp_path / "interrupts.py").write_text(DEADLY["interrupts"][0])
    with pytest.raises(KeyboardInterrupt):  # without a rehearsal it may be the user's Ctrl-C
        registry.attacks(tmp_path / "interrupts.py")
    (broken,) = registry.attacks(tmp_path / "own.py").broken
    assert broken.reason == "Own: mine"
