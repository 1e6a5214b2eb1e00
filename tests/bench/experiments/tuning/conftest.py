"""What the tests of `tune` share: attacks whose loss is known, and the command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ATTACKS = '''
"""Attacks whose loss is known."""

import math
from typing import ClassVar

import torch

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction
from attacks.search_space import Range


class Params(AttackParams):
    x: float = 9.0
    y: float = 9.0
    shift: float = 0.25


class Bowl(Attack):
    """The smaller |x - shift|, the smaller its loss; the larger x, the nearer it is to the training images."""

    name = "bowl"
    summary = "a bowl"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.TRAINING_IMAGES})
    Params = Params
    variants: ClassVar = {"wide": {}, "odd": {}}
    search_spaces: ClassVar = {"": {"x": Range(0, 1), "y": Range(0, 1)}, "wide": {"x": Range(10, 20)}}
    steps_done: ClassVar = []

    def reconstruct(self, view, ctx):
        p = self.params
        for step in range(1, 11):
            self.steps_done.append(p.x)
            ctx.report(step, 10, loss=abs(p.x - p.shift))
        truth, _ = view.training_images
        shown = int(len(truth) * min(p.x, 1))
        images = torch.cat([truth[:shown], torch.zeros_like(truth[shown:])])
        return Reconstruction(candidates=images, loss=abs(p.x - p.shift) if p.x < 0.9 else math.nan)


class Chooses(Bowl):
    name = "chooses"

    def supports(self, victim):
        raise KeyError("cats")


class Fails(Bowl):
    name = "fails"

    def reconstruct(self, view, ctx):
        raise RuntimeError("no luck")


class Exits(Bowl):
    name = "exits"

    def reconstruct(self, view, ctx):
        raise SystemExit("enough")
'''
Bench = Callable[..., Any]


@pytest.fixture
def folder(plugins: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "tiny.py").write_text((plugins / "tiny.py").read_text())
    (folder / "bowl.py").write_text(ATTACKS)
    return folder


@pytest.fixture
def tune(bench: Bench, folder: Path, results: Path) -> Bench:
    def call(*args: object) -> Any:
        given = ("-a", "bowl") if "-a" not in args else ()
        fixed = ("-v", "faces-mlp-4-tiny", "--device", "cpu", "--plugin-dir", folder, "--results-dir", results)
        return bench("tune", *given, *args, *fixed, "--controls", "quick")

    return call
