"""The hash of code that means the same: of its syntax trees, over all that it imports. It warns; versions decide.

Comments, docstrings, formatting, what stands under `if TYPE_CHECKING:`, and a class's own `version` are in no hash.
Imports are read, not made: at the top of a file or inside a function, absolute or relative. An import by a name that is
computed is not seen. Python 3.11 to 3.13 give the same hashes: fields that are empty are left out, for later versions
of Python add some.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The folder that holds the packages."""
PACKAGES = ("attacks", "victims")
"""What attacks and victims are made of."""
SILENT_FIELDS = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
"""Fields of a syntax tree that say how a text is written, or what the place of a node says already."""


@dataclass(frozen=True)
class Sources:
    """The files of some packages.

    Attributes:
        root: the folder that holds the packages.
        packages: names of packages; imports of anything else are not followed.
    """

    root: Path = ROOT
    packages: tuple[str, ...] = PACKAGES

    def trees(self, *entries: Path) -> dict[str, str]:
        """Return the hash of the syntax tree of some files, and of all files of the packages that they import.

        Args:
            entries: Python files, of the packages or not.

        Returns:
            Hex SHA-256 by name: a file of the packages by its path in `root`, another by its own name alone, so that
            it does not matter in which folder a plug-in lies.

        Raises:
            OSError: a file cannot be read.
            SyntaxError: a file is no Python.
        """
        found, met = dict[str, str](), set[str]()
        left = [path.resolve() for path in entries]
        while left:
            path = left.pop()
            module = self._module(path)
            name = path.relative_to(self.root).as_posix() if module else path.name
            if name not in found:
                tree, imports = _read(path.read_text(encoding="utf-8"))
                found[name] = tree
                named = self._named(module, path.name == "__init__.py", imports) - met
                left += [file.resolve() for file in map(self._file, named) if file is not None]
                met |= named
        return dict(sorted(found.items()))

    def sha256(self, *entries: Path) -> str:
        """Return the hex SHA-256 of `trees`, names and hashes together."""
        return _digest(f"{name} {tree}\n" for name, tree in self.trees(*entries).items())

    def file_of(self, module: str) -> Path:
        """Return the file of a module of the packages.

        Raises:
            ModuleNotFoundError: there is none.
        """
        path = self._file(module)
        if path is None:
            raise ModuleNotFoundError(f"no module {module} in {self.root}")
        return path

    def _module(self, path: Path) -> str:
        """Return the name of the module that a file of the packages is, empty for another file."""
        if not path.is_relative_to(self.root):
            return ""
        parts = path.relative_to(self.root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        return name if self._is_of_packages(name) else ""

    def _is_of_packages(self, name: str) -> bool:
        return any(name == package or name.startswith(f"{package}.") for package in self.packages)

    def _file(self, name: str) -> Path | None:
        place = self.root.joinpath(*name.split("."))
        choices = (place / "__init__.py", place.with_name(f"{place.name}.py"))
        return next((path for path in choices if self._is_of_packages(name) and path.is_file()), None)

    def _named(self, module: str, is_package: bool, imports: Iterable[tuple[int, str]]) -> set[str]:
        """Return what may be modules among a module's imports, with every enclosing package.

        Args:
            module: the importing module's name, empty for a file outside the packages.
            is_package: it is an `__init__.py`.
            imports: number of leading dots and dotted name of each.
        """
        named: set[str] = set()
        for dots, name in imports:
            parts = name.split(".")
            if dots:
                around = module.split(".")
                parts = around[: len(around) - dots + is_package] + [part for part in parts if part]
            named |= {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
        return named


def tree_sha256(text: str) -> str:
    """Return the hex SHA-256 of a Python text's syntax tree.

    Raises:
        SyntaxError: the text is no Python.
    """
    return _read(text)[0]


@lru_cache(maxsize=4096)
def _read(text: str) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Return the hash of a text's syntax tree, and its imports: the number of leading dots, and the dotted name."""
    tree = _Silence().visit(ast.parse(text))
    imports: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            imports += [(node.level, f"{module}.{alias.name}".strip(".")) for alias in node.names]
    tokens: list[str] = []
    _write(tree, tokens)
    return _digest(tokens), tuple(imports)


class _Silence(ast.NodeTransformer):
    """Removes what changes no number: strings that stand alone, imports for the type checker, versions of classes."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Remove the class's own `version`."""
        node.body = [statement for statement in node.body if not _is_version(statement)]
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Remove a string that stands alone, as docstrings do."""
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Replace an `if TYPE_CHECKING:` by its else branch, which is the part that runs."""
        self.generic_visit(node)
        name = node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", "")
        return node.orelse if name == "TYPE_CHECKING" else node


def _is_version(statement: ast.stmt) -> bool:
    """Say whether a statement of a class is `version = 2` or `version: ClassVar[int] = 2`."""
    is_number = isinstance(getattr(statement, "value", None), ast.Constant)
    if isinstance(statement, ast.AnnAssign):
        is_shared = "ClassVar" in ast.unparse(statement.annotation)
        return is_number and is_shared and ast.unparse(statement.target) == "version"
    return isinstance(statement, ast.Assign) and is_number and [*map(ast.unparse, statement.targets)] == ["version"]


def _write(value: object, tokens: list[str]) -> None:
    """Add a syntax tree as text: types and fields, without those that are empty or silent."""
    if isinstance(value, ast.AST):
        tokens.append(f"{type(value).__name__}(")
        for name, field in ast.iter_fields(value):
            if name not in SILENT_FIELDS and field is not None and field != []:
                tokens.append(f"{name}=")
                _write(field, tokens)
        tokens.append(")")
    elif isinstance(value, list):
        tokens.append("[")
        for item in value:
            _write(item, tokens)
            tokens.append(",")
        tokens.append("]")
    else:
        tokens.append(ascii(value))


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("".join(texts).encode()).hexdigest()
