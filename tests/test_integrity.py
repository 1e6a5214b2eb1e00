"""Nothing is unpickled and no code is run that came in a file; no name leads out of its folder."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from bench.plan.registry import ROOT
from bench.store.records import RunRecord

PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
ADMITTED = {
    ("bench/scoring/lpips/sdist.py", "imports pickle"),
    ("bench/run/isolation/host.py", "imports pickle"),
    ("bench/run/isolation/attacker.py", "imports pickle"),
}
"""One file whose bytes have a known hash, read by an unpickler that admits arrays alone; and what the process of a run
tells that of its attack, which never goes the other way."""


def sins(source: str) -> Iterator[str]:
    """Yield what in a source may run code out of a file that it reads, or write where the file says."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from (f"imports {name}" for name in names if name.partition(".")[0] in PICKLES)
        if not isinstance(node, ast.Call):
            continue
        called, given = ast.unparse(node.func), {word.arg: ast.unparse(word.value) for word in node.keywords}
        last = called.rpartition(".")[2]
        if called == "torch.load" and given.get("weights_only") != "True":
            yield "torch.load without weights_only=True"
        if given.get("weights_only", "True") != "True" or given.get("allow_pickle", "False") != "False":
            yield f"{called} unpickles"
        if called in ("eval", "exec") or last in ("read_pickle", "extractall", "extract", "unsafe_load"):
            yield f"calls {called}"
        if called.startswith("torch.hub") or called in ("yaml.load", "torch.jit.load", "torch.package.PackageImporter"):
            yield f"calls {called}"


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=given)",
        "pd.read_pickle(path)",
        "archive.extractall(folder)",
        "eval(text)",
        "torch.hub.load('a/b', 'c')",
        "torch.jit.load(path)",
    ],
)
def test_the_search_finds(source: str) -> None:
    assert list(sins(source))


def test_nothing_is_unpickled() -> None:
    found = set()
    for package in ("attacks", "bench", "victims"):
        for path in (ROOT / package).rglob("*.py"):
            found |= {(str(path.relative_to(ROOT)), sin) for sin in sins(path.read_text())}

    assert found - {("bench/scoring/lpips/sdist.py", "calls read_pickle")} == ADMITTED


NAMES = ["..", "../..", "../secret", "/etc/passwd", "a/../../secret", ".", "~", "%2e%2e", "..\\..", "a\0b", "", " "]


@pytest.mark.parametrize("name", NAMES)
def test_no_name_leads_out_of_its_folder(
    bench: Callable[..., Any], tmp_path: Path, name: str, record: Callable[..., RunRecord]
) -> None:
    import_module("matplotlib.font_manager")  # its first import writes the list of fonts to the user's cache
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "run.json").write_text(record(run_id="secret", cpu="MARK").model_dump_json())
    (tmp_path / "results" / "runs" / "a").mkdir(parents=True)
    before = set(tmp_path.rglob("*"))
    results = ("--results-dir", tmp_path / "results")
    for words in (
        ("show", name, *results),
        ("new", "attack", name, "--folder", tmp_path / "results"),
        ("score", "-a", name, *results),
        ("run", "-v", name, *results),
        ("study", name or "..", *results),
    ):
        ended = bench(*words)
        assert ended.status == 2
        assert "MARK" not in ended.out + ended.err
        assert ended.err.count("\n") == 1
    assert {path for path in tmp_path.rglob("*") if ".work" not in path.parts} == before
