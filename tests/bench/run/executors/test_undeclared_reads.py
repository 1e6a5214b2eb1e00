"""Which reads of an attack are told of: those of data and results, and not those by which Python finds modules."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bench.plan.registry import ROOT
from bench.run.isolation.reading import Readings


def test_what_is_read_below_a_guarded_place_is_flagged(tmp_path: Path) -> None:
    readings = Readings([str(tmp_path)])
    readings._hear("open", (str(tmp_path / "mini.npz"), "rb", 0))
    readings._hear("os.listdir", (str(tmp_path / "runs"),))
    readings._hear("open", (str(tmp_path / "written.txt"), "wb", 0))
    readings._hear("open", (str(tmp_path.parent / "elsewhere.npz"), "rb", 0))
    assert readings.flags == ("undeclared_read: mini.npz", "undeclared_read: runs")


def test_a_data_folder_with_this_program_in_it_accuses_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As where `--data-dir .` names the clone, its virtual environment below it."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    readings = Readings([str(ROOT), sys.prefix, str(tmp_path)])
    readings._hear("os.listdir", (str(ROOT / "bench" / "scoring"),))
    readings._hear("open", (str(ROOT / "attacks" / "default.toml"), "r", 0))
    readings._hear("os.scandir", (os.path.join(sys.prefix, "lib"),))  # noqa: PTH118 as Python itself does
    readings._hear("os.listdir", (str(tmp_path),))
    assert readings.flags == ()
    readings._hear("open", (str(ROOT / "cifar10.npz"), "rb", 0))
    readings._hear("os.listdir", (str(tmp_path / "runs"),))
    assert readings.flags == ("undeclared_read: cifar10.npz", "undeclared_read: runs")
