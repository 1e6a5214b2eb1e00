"""The layout of the packages: small files, few modules a package, few rooms; and text files are UTF-8."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("attacks", "bench", "victims")
LONGEST_FILE, MOST_MODULES, MOST_ROOMS = 300, 12, 11
SOURCES = [path for package in (*PACKAGES, "tests", ".ci") for path in sorted((ROOT / package).rglob("*.py"))]
FOLDERS = sorted({path.parent for path in SOURCES if path.relative_to(ROOT).parts[0] in PACKAGES})


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_can_be_read_at_one_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_has_few_modules(folder: Path) -> None:
    if folder != ROOT / "attacks":  # one file an attack
        modules = [path for path in folder.glob("*.py") if path.stem != "__init__"]
        assert len(modules) <= MOST_MODULES


def test_the_harness_has_few_rooms() -> None:
    packages = [path for path in (ROOT / "bench").iterdir() if (path / "__init__.py").exists()]
    modules = [path for path in (ROOT / "bench").glob("*.py") if path.stem != "__init__"]
    assert len(packages) + len(modules) <= MOST_ROOMS


def test_the_modules_that_lie_on_several_layers_are_all_on_one() -> None:
    """The contracts are exhaustive but for these packages, whose modules are listed one by one."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (victims,) = (contract for contract in contracts if contract.get("containers") == ["victims"])
    listed = {name for layer in victims["layers"] for name in re.split(" [:|] ", layer)}
    for package in victims["exhaustive_ignores"]:
        modules = {path.stem for path in (ROOT / "victims" / package).glob("*.py")} - {"__init__"}
        assert {f"{package}.{module}" for module in modules} <= listed


@pytest.mark.parametrize("package", [*PACKAGES, ".ci"])
def test_text_files_are_read_and_written_as_utf_8(package: str) -> None:
    """What the locale has for encoding differs between the machines that share a results folder."""
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _opens_text(node):
                assert "utf-8" in ast.unparse(node), f"{path}:{node.lineno}"


def _opens_text(call: ast.Call) -> bool:
    """Say whether a call is of `read_text`, `write_text` or `open`, of a path's own, and not for bytes."""
    if ast.unparse(call.func).startswith(("os.", "Image.", "tarfile.")):
        return False
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    mode = ast.unparse(call.args[-1]) if call.args else "'r'"
    if name == "open":
        return "b" not in mode
    return isinstance(call.func, ast.Attribute) and name in ("read_text", "write_text")
