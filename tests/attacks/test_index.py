"""The index of equations in the READMEs of attacks and victims: files, functions and tests exist; papers are cited."""

from __future__ import annotations

import ast
import dataclasses
import re
from functools import cache
from pathlib import Path

import pytest
import torch

from attacks.context import AttackContext
from attacks.knowledge import Knowledge, UndeclaredKnowledgeError, VictimView

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| `([\w/]+\.py):([\w.]+)` \| `([\w/]+\.py)::(\w+)` \|$", re.MULTILINE)
HEADER = "| paper | equation | function | test |"
OWN = ("new here", "beyond")
"""Rows that start so are of no paper, or go further than theirs."""


@cache
def docstrings(path: str) -> dict[str, str]:
    """The docstrings of a file's functions and classes, methods as Class.method, each with those it stands in."""
    module = ast.parse((ROOT / path).read_text())
    found, whole = {}, ast.get_docstring(module) or ""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = f"{whole} {ast.get_docstring(node)}"
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    found[f"{node.name}.{part.name}"] = f"{found[node.name]} {ast.get_docstring(part)}"
    return found


def entries(folder: str) -> list[tuple[str, str, str, str, str, str]]:
    text = (ROOT / folder / "README.md").read_text()
    _, _, table = text.partition(f"{HEADER}\n")
    lines = table.partition("\n\n")[0].splitlines()[1:]
    found = [row.groups() for line in lines if (row := ROW.match(line))]
    assert len(found) == len(lines)
    return [(paper, equation, *rest) for paper, equation, *rest in found]


@pytest.mark.parametrize(("folder", "fewest"), [("attacks", 25), ("victims", 10)])
def test_every_entry_of_the_index_exists(folder: str, fewest: int) -> None:
    rows = entries(folder)
    assert len(rows) >= fewest
    for _, equation, path, function, test_path, test in rows:
        assert function in docstrings(path), equation
        assert test in docstrings(test_path), equation


@pytest.mark.parametrize("folder", ["attacks", "victims"])
def test_the_code_of_an_equation_names_its_paper(folder: str) -> None:
    missing = []
    for paper, equation, path, function, *_ in entries(folder):
        for one in [] if paper.startswith(OWN) else paper.split("; "):
            author = re.search(r"[A-Z]\w+", one)
            assert author, paper
            if author[0] not in docstrings(path)[function]:
                missing.append(f"{path}:{function} does not name {author[0]}: {equation}")
    assert not missing, "\n".join(missing)


def offered(kind: type) -> set[str]:
    """The public properties and methods of a class."""
    return {
        name for name, value in vars(kind).items() if name[0] != "_" and (callable(value) or hasattr(value, "fget"))
    }


def test_the_readme_tells_what_an_attack_is_given() -> None:
    """Each item of knowledge has a row, under the name by which the view hands it out; so has what a context does."""
    text = (ROOT / "attacks" / "README.md").read_text()
    view = dict(re.findall(r"^\| `(\w+)[^`]*` \| `([A-Z_]+)` \|", text, re.MULTILINE))
    assert set(view.values()) == set(Knowledge.__members__)
    assert set(view) == offered(VictimView) - {"shown"}
    table = text.partition("| `ctx` | what it does |")[2].partition("\n\n")[0]
    told = set(re.findall(r"`(\w+)", table))
    fields = {field.name for field in dataclasses.fields(AttackContext)}
    assert offered(AttackContext) <= told
    assert {"device", "generator", "progress", "perceptual", "budget"} <= told & (fields | offered(AttackContext))


def test_the_view_reads_the_item_of_its_row() -> None:
    text = (ROOT / "attacks" / "README.md").read_text()
    for name, item in re.findall(r"^\| `(\w+)[^`]*` \| `([A-Z_]+)` \|", text, re.MULTILINE):
        view = VictimView({Knowledge[item]: None}, frozenset(Knowledge) - {Knowledge[item]})
        with pytest.raises(UndeclaredKnowledgeError, match=re.escape(repr(Knowledge[item].value))):
            view.logits(torch.zeros(1)) if name == "logits" else getattr(view, name)
