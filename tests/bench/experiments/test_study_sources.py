"""A study tells whose source has changed since its runs were stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

GUESS = """
import torch

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction
from attacks.studies.base import Cell, Study
from victims.spec import MLPSpec, Regularised, VictimSpec

ONE = (Cell({}, "guess", "digits-mlp-6-wd", {}),)
STUDIES = (Study(name="tiny-guess", summary="a guess", paper="nobody, 2026", cells=(), smoke=ONE, plots=()),)
VICTIMS = (
    VictimSpec(
        name="digits-mlp-6-wd", dataset="digits", n=6, architecture=MLPSpec(hidden=()), training=Regularised()
    ),
)


class Guess(Attack):
    \"\"\"Guesses.\"\"\"

    name = "guess"
    summary = "guesses"
    needs = frozenset({Knowledge.ARCHITECTURE})
    Params = AttackParams

    def reconstruct(self, view, ctx):
        return Reconstruction(candidates=torch.zeros(1, *view.architecture.input_shape))
"""


def test_a_study_tells_that_a_source_changed(bench: Callable[..., Any], tmp_path: Path, results: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(GUESS)

    def told() -> bool:
        words = ("study", "tiny-guess", "--smoke", "--plugin-dir", file, "--results-dir", results, "--device", "cpu")
        done = bench(*words)
        assert done.status == 0, done.err
        return "guess: its source changed" in " ".join((done.out + done.err).split())

    assert not told()
    file.write_text(GUESS.replace("zeros(", "ones("))
    assert told()
