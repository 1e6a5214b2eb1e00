"""An attack that was interrupted goes on where it was; one that is forced begins anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from stored_runs import stored

from bench.store.tensors import read_tensors, write_tensors

Bench = Callable[..., Any]
WALK = """
from pathlib import Path

import attacks.context
from attacks.base import Attack, AttackParams, Knowledge, Reconstruction

attacks.context.CHECKPOINT_SECONDS = 0.0
HERE = Path(__file__).parent


class Walk(Attack):
    name = "walk"
    summary = "one step after the other, each told in a file; interrupted after the step that a file names"
    needs = frozenset({Knowledge.ARCHITECTURE})
    Params = AttackParams

    def reconstruct(self, view, ctx):
        import torch

        shape = (3, *view.architecture.input_shape)
        state = ctx.resume() or {"images": torch.zeros(shape), "step": torch.tensor(0)}
        images = state["images"]
        for step in range(int(state["step"]), 8):
            with (HERE / "steps").open("a") as steps:
                steps.write(f"{step} ")
            images = images + 1
            ctx.checkpoint(lambda: {"images": images, "step": torch.tensor(step + 1)})
            if (HERE / "stop").exists() and step == int((HERE / "stop").read_text()):
                raise MemoryError if (HERE / "full").exists() else KeyboardInterrupt
        return Reconstruction(candidates=images, loss=float(images.mean()))
"""


@pytest.fixture
def walk(run: Bench, plugins: Path, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Run the walk; return its exit status and the steps that it made."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "walk.py").write_text(WALK)
    (folder / "tiny.py").write_text((plugins / "tiny.py").read_text())

    def call(*words: str, stop: int | None = None) -> tuple[int, str]:
        (folder / "steps").write_text("")
        (folder / "stop").write_text(str(stop)) if stop is not None else (folder / "stop").unlink(missing_ok=True)
        ended = run("-a", "walk", "--controls", "quick", "--plugin-dir", folder, *words)
        return ended.status, (folder / "steps").read_text().strip()

    return call


def test_an_interrupted_attack_makes_no_step_twice(walk: Callable[..., tuple[int, str]], results: Path) -> None:
    assert walk(stop=2) == (130, "0 1 2")
    assert walk(stop=5) == (130, "3 4 5")
    assert walk() == (0, "6 7")
    assert pd.read_csv(results / "runs.csv")["attack_loss"].tolist() == [8]
    assert not list((results / ".work" / "checkpoints").iterdir())


def test_an_attack_that_lacked_memory_goes_on_where_it_was(
    walk: Callable[..., tuple[int, str]], tmp_path: Path, results: Path
) -> None:
    (tmp_path / "own" / "full").touch()
    assert walk(stop=2) == (1, "0 1 2")
    assert pd.read_csv(results / "runs.csv")["status"].tolist() == ["oom"]
    assert walk() == (0, "3 4 5 6 7")
    assert not list((results / ".work" / "checkpoints").iterdir())


def test_a_forced_attack_begins_anew(walk: Callable[..., tuple[int, str]]) -> None:
    assert walk(stop=2) == (130, "0 1 2")
    assert walk("--force") == (0, "0 1 2 3 4 5 6 7")


def test_an_attack_whose_source_changed_begins_anew(walk: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    assert walk(stop=2) == (130, "0 1 2")
    source = tmp_path / "own" / "walk.py"
    source.write_text(f"# a comment\n{source.read_text()}")
    assert walk(stop=4) == (130, "3 4")
    source.write_text(f"{source.read_text()}\nCHANGED = True\n")
    assert walk() == (0, "0 1 2 3 4 5 6 7")


def test_an_attack_on_other_weights_begins_anew(walk: Callable[..., tuple[int, str]], results: Path) -> None:
    assert walk(stop=2) == (130, "0 1 2")
    (checkpoint,) = (results / ".work" / "checkpoints").iterdir()
    state, metadata = read_tensors(checkpoint)
    write_tensors(checkpoint, state, metadata | {"weights": "of a victim that was trained elsewhere"})
    assert walk() == (0, "0 1 2 3 4 5 6 7")
    assert stored(results)["victim_sha"].tolist() == [metadata["weights"]]


def test_a_failure_replaces_no_measured_row_whose_run_is_elsewhere(
    walk: Callable[..., tuple[int, str]], tmp_path: Path, results: Path
) -> None:
    assert walk() == (0, "0 1 2 3 4 5 6 7")
    measured = (results / "runs.csv").read_text()
    shutil.rmtree(results / "runs")
    (tmp_path / "own" / "full").touch()
    assert walk(stop=2) == (1, "0 1 2")
    assert (results / "runs.csv").read_text() == measured
    assert walk() == (0, "3 4 5 6 7")
    assert (results / "runs.csv").read_text() != measured
