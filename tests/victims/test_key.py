"""A victim's key: it changes with any file of the code that trains it, and no such file is left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacking import digits_network

from victims import cache
from victims.informed.spec import AnySpec
from victims.spec import VictimSpec

PACKAGE = cache.HERE
SPECS: dict[str, AnySpec] = {
    "SOURCES": VictimSpec(name="faces-mlp-4", dataset="faces", n=4),
    "INFORMED_SOURCES": digits_network(n=30, targets=2, epochs=2),
}
DESCRIBED = {"dataset_files", "errors", "files", "frozen_model", "recipes", "spec"}
"""What the training imports but no weight depends on: the key holds the spec's fields and the data's hash."""


@pytest.fixture(autouse=True)
def fresh_hash() -> Iterator[None]:
    """The hash of the sources is taken once a process: tests that change them leave none behind."""
    yield
    cache._training_sha256.cache_clear()


def key(spec: AnySpec) -> str:
    cache._training_sha256.cache_clear()
    return cache.victim_key(spec, "data")


@pytest.mark.parametrize("sources", SPECS)
def test_a_change_to_any_training_source_changes_the_key(
    sources: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = []
    for source in getattr(cache, sources):
        copies.append(tmp_path / source.relative_to(PACKAGE))
        copies[-1].parent.mkdir(parents=True, exist_ok=True)
        copies[-1].write_bytes(source.read_bytes())
    monkeypatch.setattr(cache, sources, copies)
    spec = SPECS[sources]
    keys = [key(spec)]
    assert key(spec) == keys[0]
    for copy in copies:
        copy.write_text(copy.read_text() + "\nCHANGED = True\n")
        keys.append(key(spec))
    assert len(set(keys)) == 1 + len(copies)


def imported(source: Path) -> set[Path]:
    """Return the files of the package that a file imports from."""
    names = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    places = [PACKAGE.parent.joinpath(*name.split(".")) for name in names if name.startswith(f"{PACKAGE.name}.")]
    return {path for place in places for path in (place.with_suffix(".py"), place / "__init__.py") if path.exists()}


def test_every_file_that_the_training_imports_is_in_the_key() -> None:
    needed, found = {PACKAGE / "training" / "loop.py", PACKAGE / "datasets" / "__init__.py"}, set[Path]()
    while needed - found:
        new = needed - found
        found |= new
        needed |= {path for source in new for path in imported(source)}
    assert {PACKAGE / "equations" / "gates.py", PACKAGE / "training" / "newton.py"} <= found
    described = {PACKAGE / f"{name}.py" for name in DESCRIBED}
    assert found - set(cache.SOURCES) == described
