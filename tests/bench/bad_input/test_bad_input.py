"""What a user gets wrong: one line that names the cause, exit status 2, no traceback, nothing half-written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bad_arguments
import bad_data
import bad_models
import bad_outputs
import bad_tables
import pandas as pd
import pytest
from bad_attacks import ATTACK, FAILS
from scene import CASES, Scene, Words

from bench.store.records import FAILED, RunRecord

STILL_RUNS: dict[str, tuple[str, str]] = {
    "raises": ("1 / 0\n", "ZeroDivisionError: division by zero"),
    "no_python": ("this is no Python\n", "SyntaxError"),
    "leaves": ("raise SystemExit(3)\n", "SystemExit: 3"),
    "no_spec": ("VICTIMS = ('faces',)\n", "which is no VictimSpec"),
    "bad_spec": (
        "from victims.spec import *\nVICTIMS = (VictimSpec(name='x', dataset='faces', n=-4),)\n",
        "greater than",
    ),
    "bad_name": ("from victims.spec import *\nVICTIMS = (VictimSpec(name='../x', dataset='faces', n=4),)\n", "'../x'"),
    "no_needs": (
        "from attacks.base import *\nclass A(Attack):\n  name = 'a'\n  def reconstruct(self, view, ctx): pass\n",
        "lacks the class attribute summary, needs, Params",
    ),
    "takes_a_shipped_name": (
        "from attacks.base import *\nclass A(Attack):\n"
        "  name, summary, needs, Params = 'kkt', '', frozenset(), AttackParams\n"
        "  def reconstruct(self, view, ctx): pass\n",
        "'kkt' is already taken by attacks/kkt.py",
    ),
    "takes_a_shipped_victim": (
        "from victims.spec import *\nVICTIMS = (VictimSpec(name='faces-mlp-20', dataset='faces', n=4),)\n",
        "'faces-mlp-20' is already taken by victims/zoo/haim2022.py",
    ),
}
"""Name: (a plug-in file that is no good, what the message must say); the other files work."""


MODULES = (bad_arguments, bad_data, bad_models, bad_outputs, bad_tables)
"""Where the cases come from; they enter `CASES` as they are imported."""


@pytest.fixture
def scene(tmp_path: Path, plugins: Path, monkeypatch: pytest.MonkeyPatch, record: Callable[..., RunRecord]) -> Scene:
    return Scene(tmp_path, plugins, monkeypatch, record)


def one_line(text: str) -> str:
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert "Traceback" not in text
    return text


@pytest.mark.parametrize(("build", "words"), CASES.values(), ids=CASES)
def test_a_mistake_is_one_line(
    bench: Callable[..., Any], scene: Scene, cache_dir: Path, build: Callable[[Scene], Words], words: str
) -> None:
    line = build(scene)
    before = set(scene.root.glob("results/runs/*"))
    ended = bench(*line)

    assert ended.status == 2
    assert words in one_line(ended.err)
    assert set(scene.root.glob("results/runs/*")) == before
    left = [path for folder in (scene.root, cache_dir) for path in folder.rglob(".*")]
    assert [path for path in left if path.name != ".work"] == []


@pytest.mark.parametrize(("content", "words"), STILL_RUNS.values(), ids=STILL_RUNS)
def test_a_plugin_that_is_no_good_costs_only_itself(
    bench: Callable[..., Any], scene: Scene, content: str, words: str
) -> None:
    ended = bench(*scene.plugin("poor.py", content))

    assert ended.status == 0
    assert "poor.py" in ended.err
    assert words in one_line(ended.err)
    assert len(list(scene.root.glob("results/runs/tiny-*/grid.png"))) == 1


@pytest.mark.parametrize(("attributes", "body", "words"), FAILS.values(), ids=FAILS)
def test_an_attack_that_is_no_good_is_a_failure_row(
    bench: Callable[..., Any], scene: Scene, attributes: str, body: str, words: str
) -> None:
    scene.data()  # a victim that is scored in no time
    line = scene.plugin("poor.py", ATTACK.format(attributes=attributes, body=body), victim="own-mlp-4", attack="poor")
    ended = bench(*line, "--controls", "quick")
    (row,) = pd.read_csv(scene.root / "results" / "runs.csv", keep_default_na=False).to_dict("records")

    assert ended.status == 1
    assert (row["attack"], row["status"] in FAILED) == ("poor", True)
    assert words in row["reason"] and row["reason"].strip() and "\n" not in row["reason"]
    assert "Traceback" not in ended.out + ended.err
    assert not list(scene.root.glob("results/runs/.*"))


def test_there_are_a_hundred() -> None:
    assert len(CASES) + len(FAILS) + len(STILL_RUNS) >= 100
    assert all(module.__name__.startswith("bad_") for module in MODULES)
