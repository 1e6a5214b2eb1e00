"""What is installed is read once, and again when something was installed meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.plan import declared


def install(folder: Path, name: str, changed: int) -> None:
    made = folder / f"{name}-1.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
    (made / "entry_points.txt").write_text(f"[bench.attacks]\n{name} = {name}.attacks\n")
    os.utime(folder, (changed, changed))


def names() -> set[str]:
    return {point.name for point in declared.entry_points("bench.attacks")}


def test_a_package_is_found_where_it_is_installed_and_in_a_new_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = names()
    install(tmp_path / "one", "first", changed=1)
    monkeypatch.syspath_prepend(tmp_path / "one")
    assert names() == before | {"first"}
    install(tmp_path / "one", "second", changed=2)
    assert names() == before | {"first", "second"}
    monkeypatch.syspath_prepend(tmp_path / "absent")
    assert names() == before | {"first", "second"}
    monkeypatch.undo()
    assert names() == before


def test_packages_are_read_once_for_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(declared.metadata, "entry_points", lambda group: read.append(group) or ())
    monkeypatch.setattr(declared.sys, "path", ["/nowhere"])
    for group in ("bench.attacks", "bench.victims", "bench.attacks"):
        assert declared.entry_points(group) == ()
    assert read == ["bench.attacks", "bench.victims"]
    declared._read.cache_clear()
