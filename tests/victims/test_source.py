"""The hash of code: a comment changes none, a constant changes that of whoever imports it, a folder's place none."""

from __future__ import annotations

import ast
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from victims.cache import MAKERS
from victims.source import PACKAGES, ROOT, Sources, tree_sha256

ATTACKS = sorted(path.stem for path in (ROOT / "attacks").glob("*.py"))
INTERPRETERS = ("python3.11", "python3.12", "python3.13", "python3.14")
CODE = """
from typing import TYPE_CHECKING, ClassVar

RATE = 0.5


class Tool:
    version: ClassVar[int] = 1
    width: int = 3

    def use(self, count=2):
        return f"{count:>{self.width}}" + "a" "b"
"""


IMPORTING = """
import os, sys, torch
for module in sys.argv[1:]:
    if not os.fork():
        __import__(module)
        print(*sys.modules, flush=True)
        os._exit(0)
    os.wait()
"""
"""Each in a fork, so that torch is imported once for all."""


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    """A copy of the packages; files change, and none comes or goes, so where a module lies is found once."""
    monkeypatch.setattr(Sources, "_file", cache(Sources._file))
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "*.md"))
    return Sources(tmp_path)


def hashes(sources: Sources) -> dict[str, str]:
    """Return the hash of every attack, and of what trains the victims of every setting."""
    modules = [*(f"attacks.{name}" for name in ATTACKS), *MAKERS.values()]
    return {module: sources.sha256(sources.file_of(module)) for module in modules}


def annotated(text: str) -> str:
    """Return a Python text with other docstrings, other comments, other line breaks, and an import for types."""
    lines = text.splitlines()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value.value = "another docstring"
    more = "\nif TYPE_CHECKING:\n    import nowhere\n" if "TYPE_CHECKING" in text else ""
    return f"# {len(lines)} lines\n\n{ast.unparse(tree)}\n{more}# the end\n"


def test_a_comment_or_docstring_changes_no_hash(copy: Sources) -> None:
    before = hashes(copy)
    assert before == hashes(Sources())
    for path in copy.root.rglob("*.py"):
        path.write_text(annotated(path.read_text()))
    assert hashes(copy) == before


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("RATE = 0.5", "RATE = 0.25", False),
        ("RATE = 0.5", "RATE  =  .5  # half", True),
        ("RATE = 0.5", 'RATE = 0.5\n"""Of learning."""', True),
        ("version: ClassVar[int] = 1", "version: ClassVar[int] = 2", True),
        ("version: ClassVar[int] = 1", "version = 2", True),
        ("version: ClassVar[int] = 1", "version: int = 1", False),
        ("width: int = 3", "width: int = 4", False),
        ("count=2", "count=3", False),
        ("def use", '"""A tool."""\n\n    def use', True),
        ("self.width", "self.height", False),
        ('"a" "b"', '"ab"', True),
        ('"a" "b"', '"ac"', False),
        ("RATE = 0.5", "RATE = 0.5\nif TYPE_CHECKING:\n    import torch", True),
        ("RATE = 0.5", "RATE = 0.5\nif TYPE_CHECKING:\n    pass\nelse:\n    RATE = 1", False),
        ("RATE = 0.5", "RATE = 0.5\nimport torch", False),
    ],
)
def test_what_changes_the_hash_of_a_text(old: str, new: str, same: bool) -> None:
    assert old in CODE
    assert (tree_sha256(CODE.replace(old, new)) == tree_sha256(CODE)) == same


def test_a_changed_file_changes_the_hash_of_whoever_imports_it_and_of_no_other(copy: Sources) -> None:
    before = hashes(copy)
    holders = {module: set(copy.trees(copy.file_of(module))) for module in before}
    files = sorted(set().union(*holders.values()))
    expected = {"victims/training/loop.py", "victims/datasets/raw.py", "victims/informed/glm.py", "attacks/kkt.py"}
    assert expected < set(files)
    for name in sorted(expected | {*files[::15]}):
        path = copy.root / name
        text = path.read_text()
        path.write_text(f"{text}\nCHANGED = True\n")
        after = hashes(copy)
        path.write_text(text)
        assert {module for module in before if after[module] != before[module]} == {
            module for module in before if name in holders[module]
        }, name


def test_all_that_a_process_imports_is_in_the_closure(process) -> None:
    """Imports that run are a subset of those that are read: Python itself says which ran."""
    sources, modules = Sources(), (*MAKERS.values(), "attacks.kkt")
    lines = process("-c", IMPORTING, *modules).out.splitlines()
    for module, line in zip(modules, lines, strict=True):
        ran = [name for name in line.split() if name.split(".")[0] in PACKAGES]
        assert module in ran
        assert {sources.file_of(name).relative_to(ROOT).as_posix() for name in ran} <= {
            *sources.trees(sources.file_of(module))
        }


def test_imports_are_followed_wherever_they_stand(tmp_path: Path) -> None:
    texts = {
        "attacks/__init__.py": "",
        "attacks/a.py": "import os, victims.b\nfrom . import c\ndef f():\n    from .deep import d as e\n",
        "attacks/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import attacks.types\n",
        "attacks/types.py": "",
        "attacks/deep/__init__.py": "from ..up import x",
        "attacks/deep/d.py": "from .nowhere import y",
        "attacks/up.py": "import attacks.a",
        "attacks/other.py": "",
        "victims/__init__.py": "from victims.own import *",
        "victims/b.py": "import bench.z",
        "victims/own.py": "",
        "bench/z.py": "",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    left_out = {"attacks/types.py", "attacks/other.py", "bench/z.py"}
    assert set(Sources(tmp_path).trees(tmp_path / "attacks" / "a.py")) == set(texts) - left_out


def test_a_plug_in_has_one_hash_wherever_it_lies(tmp_path: Path) -> None:
    found = set()
    for folder in (tmp_path / "z", tmp_path / "a" / "deep"):
        folder.mkdir(parents=True)
        (folder / "aaa.py").write_text("import attacks.base\nSIZE = 3")
        found.add(Sources().sha256(folder / "aaa.py"))
        assert {"aaa.py", "attacks/base.py"} < set(Sources().trees(folder / "aaa.py"))
    assert len(found) == 1


def test_a_module_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"no module victims\.gone"):
        Sources().file_of("victims.gone")


@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_every_python_gives_the_same_hash(interpreter: str) -> None:
    code = (
        "from victims.source import Sources\n"
        "s = Sources()\n"
        "print(*[s.sha256(s.file_of(m)) for m in ('attacks.kkt', 'victims.obtain')])"
    )
    if not shutil.which(interpreter) or subprocess.run([interpreter, "-c", ""], check=False).returncode:
        pytest.skip(f"no {interpreter} here")
    said = subprocess.run([interpreter, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    sources = Sources()
    assert said.split() == [sources.sha256(sources.file_of(m)) for m in ("attacks.kkt", "victims.obtain")]
