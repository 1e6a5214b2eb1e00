"""The index of equations in the READMEs of attacks and victims: every file, function and test in it exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| `([\w/]+\.py):([\w.]+)` \| `([\w/]+\.py)::(\w+)` \|$", re.MULTILINE)
HEADER = "| paper | equation | function | test |"


@cache
def names(path: str) -> set[str]:
    """The functions and classes of a file, methods as Class.method."""
    found = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return found


@pytest.mark.parametrize(("folder", "fewest"), [("attacks", 25), ("victims", 10)])
def test_every_entry_of_the_index_exists(folder: str, fewest: int) -> None:
    text = (ROOT / folder / "README.md").read_text()
    _, _, table = text.partition(f"{HEADER}\n")
    lines = table.partition("\n\n")[0].splitlines()[1:]
    entries = [found.groups() for line in lines if (found := ROW.match(line))]
    assert len(entries) == len(lines) >= fewest
    for _, equation, path, function, test_path, test in entries:
        assert function in names(path), equation
        assert test in names(test_path), equation
