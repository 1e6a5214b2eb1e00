"""The verb `new`: a file with an attack, a victim or a model of one's own, to start from."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from typing import Literal

from bench.plan.registry import NAME
from victims.errors import UserError

Kind = Literal["attack", "victim", "model"]
TEMPLATES = Path(__file__).parent / "templates"
EXAMPLE = re.compile(r"\bBlur(Params)?\b")
"""Matches the names of the template's attack and of the class of its parameters."""


def write_new(kind: Kind, name: str, folder: Path, taken: Mapping[str, str]) -> Path:
    """Write a template under a new name, a working file to be changed, and return its path.

    Args:
        kind: what it holds: an attack, a victim that is trained here, or a model that was trained elsewhere.
        name: the name on the command line; the file is called the same, with "_" for "-" and ".".
        folder: where the file goes; made if it is not there.
        taken: the file of each attack or victim that there is, by name.

    Raises:
        UserError: the name is invalid or taken, or a Python module has it; or the file exists or cannot be written.
    """
    if not NAME.fullmatch(name):
        raise UserError(f"{name!r} is no name; write letters, digits, '-', '_' and '.', a letter or digit first")
    if name in taken:
        raise UserError(f"the name {name!r} is already taken by {taken[name]}; choose another")
    path = folder / f"{re.sub('[-.]', '_', name)}.py"
    if _importable(path.stem):
        raise UserError(f"{path.name} would hide the module {path.stem}; choose another name")
    text = (TEMPLATES / f"{kind}.py").read_text(encoding="utf-8")
    identifier = "".join(part.capitalize() for part in re.split("[-._]", name))
    identifier = identifier if identifier[0].isalpha() else f"Attack{identifier}"
    if iskeyword(identifier) or identifier in re.findall(r"\w+", re.sub(EXAMPLE, "", text)):
        identifier += "Attack"
    text = re.sub(EXAMPLE, rf"{identifier}\1", text)
    text = re.sub(r'name ?= ?"\w+"', lambda found: re.sub(r'"\w+"', f'"{name}"', found[0]), text)
    try:
        if not folder.exists():
            folder.mkdir(parents=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path} is there already; choose another name, or another folder with --folder") from None
    except OSError as error:
        raise UserError(f"cannot write {path} ({error.strerror}); name another folder with --folder") from None
    return path


def _importable(stem: str) -> bool:
    """Say whether Python, or a package that is installed, has a module of this name."""
    if stem in sys.stdlib_module_names:
        return True
    found = find_spec(stem)
    return found is not None and found.origin is not None and Path(found.origin).parent != Path.cwd()
