"""Names files whose syntax tree changed under an unchanged version of an attack, a recipe or what scores.

The lock file holds the version of each unit and the tree hash of each file that a unit imports.

    python .ci/versions.py                                      says what changed without a raised version
    python .ci/versions.py --accept FILE ... --shown-by TEST    notes that the numbers are the same, and what shows it
    python .ci/versions.py --write                              takes up all that is in order
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from bench.plan import registry  # noqa: E402
from bench.scoring import METRIC_SUITE, PROTOCOLS  # noqa: E402
from bench.scoring.judges.obtain import JUDGE_VERSION, SOURCES  # noqa: E402
from victims.cache import MAKERS  # noqa: E402
from victims.informed.spec import AnySpec  # noqa: E402
from victims.source import PACKAGES, Sources  # noqa: E402

LOCK = HERE / "versions.toml"
SCORING = ("bench.scoring",)


@dataclass(frozen=True)
class Unit:
    """What has a version.

    Attributes:
        name: of the unit, its kind first.
        version: as text.
        module: whose imports are followed.
        packages: in which they are.
    """

    name: str
    version: str
    module: str
    packages: tuple[str, ...] = PACKAGES


@dataclass
class Lock:
    """What the lock file holds, or would hold now.

    Attributes:
        versions: by unit.
        trees: 16 hex digits by file.
        same: by file and tree, the test which shows that this tree gives the numbers of the one before.
    """

    versions: dict[str, str] = field(default_factory=dict)
    trees: dict[str, str] = field(default_factory=dict)
    same: dict[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Lock:
        """Return what a lock file holds, nothing if there is none."""
        held = tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        same = {(entry["file"], entry["tree"]): entry["shown_by"] for entry in held.get("same_numbers", [])}
        return cls(held.get("versions", {}), held.get("trees", {}), same)

    def write(self, path: Path) -> None:
        """Write a lock file."""
        lines = ["# Written by .ci/versions.py.", "", "[versions]"]
        lines += [f'"{unit}" = "{version}"' for unit, version in sorted(self.versions.items())]
        lines += ["", "[trees]", *(f'"{file}" = "{tree}"' for file, tree in sorted(self.trees.items()))]
        for (file, tree), test in sorted(self.same.items()):
            lines += ["", "[[same_numbers]]", f'file = "{file}"', f'tree = "{tree}"', f'shown_by = "{test}"']
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def all_units() -> list[Unit]:
    """Return all that has a version in this repository."""
    attacks = registry.attacks().items.values()
    units = [Unit(f"attack {kind.name}", str(kind.version), kind.__module__) for kind in attacks]
    units = [unit for unit in units if unit.module.startswith("attacks.")]  # none of an installed package
    for spec in get_args(AnySpec):
        annotation: Any = spec.model_fields["training"].annotation
        for recipe in get_args(annotation) or (annotation,):
            kind = recipe.model_fields["kind"].default
            units.append(Unit(f"recipe {kind}", str(recipe.version), MAKERS[spec.setting]))
    for protocol in PROTOCOLS.values():
        version = f"{METRIC_SUITE}.{protocol.version}"
        units.append(Unit(f"protocol {protocol.name}", version, "bench.scoring.scores", SCORING))
    units.append(Unit("metric suite", METRIC_SUITE, "bench.scoring.learned_metrics", SCORING))
    units.append(Unit("judge", str(JUDGE_VERSION), "bench.scoring.judges.obtain", SOURCES))
    return units


def closures(units: Sequence[Unit], root: Path) -> dict[str, dict[str, str]]:
    """Return the tree hashes of the files that each unit imports, by unit and by file."""
    found: dict[tuple[str, tuple[str, ...]], dict[str, str]] = {}
    for module, packages in {(unit.module, unit.packages) for unit in units}:
        sources = Sources(root, packages)
        trees = sources.trees(sources.file_of(module))
        found[module, packages] = {file: tree[:16] for file, tree in trees.items()}
    return {unit.name: found[unit.module, unit.packages] for unit in units}


def unversioned(lock: Lock, now: Lock, held: dict[str, dict[str, str]]) -> Iterator[str]:
    """Yield a line for each file whose tree changed while the version of a unit that imports it did not.

    Args:
        lock: what is committed.
        now: what is here.
        held: the files of each unit.
    """
    for file, tree in now.trees.items():
        if tree == lock.trees.get(file) or (file, tree) in lock.same:
            continue
        same = [unit for unit, files in held.items() if file in files and lock.versions.get(unit) == now.versions[unit]]
        if same:
            yield f"{file}: its code changed, and no version of {', '.join(same)}"


def _is_test(test: str, root: Path) -> bool:
    """Return whether there is a test of this id, `tests/file.py::name`."""
    file, _, name = test.partition("::")
    path = root / file
    return bool(name) and path.is_file() and f"def {name.partition('[')[0]}(" in path.read_text(encoding="utf-8")


def main(words: Sequence[str] | None = None, root: Path = HERE.parent, path: Path = LOCK) -> int:
    """Check the lock file, and return 1 if a file changed under an unchanged version or the lock is behind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accept", nargs="+", metavar="FILE", default=[], help="files that give the same numbers")
    parser.add_argument("--shown-by", metavar="TEST", help="the test that shows it")
    parser.add_argument("--write", action="store_true", help="update the lock file if all is in order")
    asked = parser.parse_args(words)
    units, lock = all_units(), Lock.read(path)
    held = closures(units, root)
    trees = {file: tree for files in held.values() for file, tree in files.items()}
    now = Lock({unit.name: unit.version for unit in units}, trees)
    if asked.accept:
        unknown = sorted(set(asked.accept) - set(trees))
        if unknown or not asked.shown_by:
            parser.error(f"no unit imports {', '.join(unknown)}" if unknown else "--accept needs --shown-by")
        if not _is_test(asked.shown_by, root):
            raise SystemExit(f"there is no test {asked.shown_by}; name one as tests/attacks/test_search.py::test_...")
        lock.same |= {(file, trees[file]): asked.shown_by for file in asked.accept}
        lock.write(path)
    now.same = {entry: test for entry, test in lock.same.items() if trees.get(entry[0]) == entry[1]}
    troubles = list(unversioned(lock, now, held))
    if troubles:
        troubles.append(
            "raise the version of each whose numbers change; for a file that changes no other numbers:\n"
            "    python .ci/versions.py --accept FILE ... --shown-by TEST"
        )
    elif asked.write:
        now.write(path)
    elif now != lock:
        troubles.append(f"{path.name} is behind; `python .ci/versions.py --write` takes up what changed")
    troubles += [
        f"{file}: {test} showed that its numbers are the same, and is gone; --accept it by another"
        for (file, _), test in now.same.items()
        if not _is_test(test, root)
    ]
    sys.stdout.writelines(f"{line}\n" for line in troubles)
    return 1 if troubles else 0


if __name__ == "__main__":
    raise SystemExit(main())
