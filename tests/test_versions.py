"""The check of `.ci/run`: code that changes under an unchanged version is named, a comment is not."""

from __future__ import annotations

import importlib.util
import io
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from attacks.kkt import KKT
from victims.recipes import NormalizedDescent

ROOT = Path(__file__).parents[1]
SHOWN_BY = "tests/test_versions.py::test_a_comment_is_nobodys_business"
Check = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def versions() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ci_versions", ROOT / ".ci" / "versions.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ci_versions"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def in_order(versions: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository's packages, and of this test, with a lock file of its own."""
    root = tmp_path_factory.mktemp("in_order")
    for package in ("attacks", "victims", "bench"):
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "tests").mkdir()
    shutil.copy(__file__, root / "tests")
    said = [_said(versions, root, *words) for words in ((), ("--write",), ())]
    behind = "versions.toml is behind; `python .ci/versions.py --write` takes up what changed\n"
    assert said == [(1, behind), (0, ""), (0, "")]
    return root


@pytest.fixture
def root(in_order: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(in_order, tmp_path / "root"))


@pytest.fixture
def check(versions: ModuleType, root: Path) -> Check:
    """Run the check on a copy whose lock file is in order; return its status and what it says."""
    return partial(_said, versions, root)


def _said(versions: ModuleType, root: Path, *words: str) -> tuple[int, str]:
    with redirect_stdout(io.StringIO()) as said:
        status = versions.main(words, root, root / "versions.toml")
    return status, said.getvalue()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def named(said: str) -> set[str]:
    """Return the units that the first line names."""
    return set(said.splitlines()[0].partition("no version of ")[2].split(", "))


def test_a_comment_is_nobodys_business(check: Check, root: Path) -> None:
    for path in (*root.glob("*/*.py"), *root.glob("bench/scoring/*.py")):
        path.write_text(f"# a comment\n{path.read_text()}")
    assert check() == (0, "")


def test_a_constant_is_named_until_the_version_is_raised(
    check: Check, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(root / "attacks" / "kkt.py", "class KKT", "RATE = 3\n\n\nclass KKT")
    for words in ((), ("--write",)):
        status, said = check(*words)
        assert status == 1
        assert said.startswith("attacks/kkt.py: its code changed, and no version of attack kkt\n")
    monkeypatch.setattr(KKT, "version", 2)
    assert check() == (1, "versions.toml is behind; `python .ci/versions.py --write` takes up what changed\n")
    assert check("--write") == (0, "")
    assert '"attack kkt" = "2"' in (root / "versions.toml").read_text()
    edit(root / "attacks" / "kkt.py", "RATE = 3", "RATE = 4")
    assert named(check()[1]) == {"attack kkt"}


def test_the_same_numbers_are_shown_by_a_test(check: Check, root: Path) -> None:
    edit(root / "victims" / "training" / "loop.py", "REPORT_SECONDS = 0.5", "REPORT_SECONDS = 0.25")
    status, said = check()
    assert status == 1
    assert {"recipe gd", "recipe normalized", "recipe regularised"} <= named(said)
    assert not {"recipe newton", "recipe descent", "attack kkt", "judge"} & named(said)
    accept = ("--accept", "victims/training/loop.py", "--shown-by")
    with pytest.raises(SystemExit, match=r"there is no test tests/gone\.py::test_it"):
        check(*accept, "tests/gone.py::test_it")
    assert check(*accept, SHOWN_BY, "--write") == (0, "")
    assert check() == (0, "")
    assert f'shown_by = "{SHOWN_BY}"' in (root / "versions.toml").read_text()
    here, name = root / "tests" / "test_versions.py", SHOWN_BY.partition("::")[2]
    edit(here, f"def {name}(", "def test_renamed(")
    told = f"victims/training/loop.py: {SHOWN_BY} showed that its numbers are the same, and is gone"
    assert check() == (1, f"{told}; --accept it by another\n")
    edit(here, "def test_renamed(", f"def {name}(")
    edit(root / "victims" / "training" / "loop.py", "REPORT_SECONDS = 0.25", "REPORT_SECONDS = 0.2")
    assert check()[0] == 1


def test_of_a_shared_file_each_unit_is_raised_or_accepted(
    check: Check, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(root / "victims" / "training" / "loop.py", "REPORT_SECONDS = 0.5", "REPORT_SECONDS = 0.25")
    monkeypatch.setattr(NormalizedDescent, "version", 2)
    status, said = check()
    assert status == 1
    assert "recipe normalized" not in named(said)
    assert "recipe gd" in named(said)
    assert check("--accept", "victims/training/loop.py", "--shown-by", SHOWN_BY, "--write") == (0, "")


@pytest.mark.parametrize(
    ("file", "units", "others"),
    [
        ("bench/scoring/matching.py", {"metric suite", "protocol haim2022-min", "protocol balle2022"}, {"judge"}),
        ("bench/scoring/lpips/perceptual.py", {"metric suite"}, {"judge", "protocol balle2022"}),
        ("bench/scoring/judges/training.py", {"metric suite", "judge"}, {"protocol balle2022"}),
        ("victims/datasets/raw.py", {"recipe gd", "recipe newton"}, {"attack kkt", "metric suite"}),
    ],
)
def test_who_imports_a_file_is_named(check: Check, root: Path, file: str, units: set[str], others: set[str]) -> None:
    path = root / file
    path.write_text(f"{path.read_text()}\nCHANGED = True\n")
    found = named(check()[1])
    assert units <= found
    assert not others & found


def test_a_new_file_is_named_with_its_importer(check: Check, root: Path) -> None:
    (root / "attacks" / "tool.py").write_text("RATE = 1\n")
    edit(root / "attacks" / "glm.py", "from typing", "import attacks.tool\nfrom typing")
    said = check()[1]
    assert "attacks/glm.py: its code changed, and no version of attack glm\n" in said
    assert "attacks/tool.py: its code changed, and no version of attack glm\n" in said
