"""A small world for runs in processes of their own: data, victims, attacks, a cache and a results folder."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from processes import ROOT, bench_run, environment

PLUGIN = '''
import os
import time
from pathlib import Path

import attacks.context
from attacks.base import Attack, AttackParams, Knowledge, Reconstruction
from victims.spec import MLPSpec, NormalizedDescent, VictimSpec

attacks.context.CHECKPOINT_SECONDS = 0.0
HERE = Path(__file__).parent
VICTIMS = tuple(
    VictimSpec(
        name=f"mini-mlp-{n}", dataset="mini", n=n,
        architecture=MLPSpec(hidden=(8,)), training=NormalizedDescent(steps=30),
    )
    for n in (2, 4, 6, 8)
)


def note(text):
    with (HERE / "calls").open("a") as calls:
        calls.write(text + "\\n")


def counted(train):
    def call(spec, *arguments):
        note(f"train {spec.name}")
        return train(spec, *arguments)

    return call


class Params(AttackParams):
    steps: int = 10


class Steps(Attack):
    """Walks at random, one step after the other, and keeps where it is."""

    name = "steps"
    summary = "a random walk"
    needs = frozenset({Knowledge.ARCHITECTURE})
    Params = Params

    def reconstruct(self, view, ctx):
        import torch

        shape = (3, *view.architecture.input_shape)
        state = ctx.resume() or {"images": torch.zeros(shape), "step": torch.tensor(0)}
        if "generator" in state:
            ctx.generator.set_state(state["generator"])
        images = state["images"]
        for step in range(int(state["step"]), self.params.steps):
            if ctx.expired(step):
                break
            images = images + 0.1 * torch.randn(shape, generator=ctx.generator)
            time.sleep(0.01)
            ctx.report(step + 1, self.params.steps)
            now = {"images": images, "step": torch.tensor(step + 1), "generator": ctx.generator.get_state()}
            ctx.checkpoint(lambda: now)
        return Reconstruction(candidates=images, loss=float(images.square().mean()))


class Plain(Steps):
    name = "plain"
    summary = "noise"

    def reconstruct(self, view, ctx):
        import torch

        note("plain")
        print("a line")
        return Reconstruction(candidates=torch.randn(3, *view.architecture.input_shape, generator=ctx.generator))
'''

COUNTS_TRAININGS = """
import victims.training.loop

victims.training.loop.train = counted(victims.training.loop.train)
"""
VARYING = ["wall_s", "train_s", "peak_mem_mb", "started_utc", "git_commit", "sequence"]


@dataclass(frozen=True)
class World:
    """A folder with plug-ins, data, a cache and results."""

    root: Path

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def plugins(self) -> Path:
        return self.root / "plugins"

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.root, BENCH_DATA_DIR=str(self.plugins))

    def command(self, *words: object) -> list[str]:
        return bench_run(self.plugins, self.results, *words)

    def start(self, *words: object) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.command(*words), cwd=ROOT, env=self.environment, stdout=pipe, stderr=pipe, text=True
        )

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words), cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False
        )

    def rows(self, name: str = "runs.csv") -> pd.DataFrame:
        return pd.read_csv(self.results / name, keep_default_na=False)

    def calls(self) -> list[str]:
        path = self.plugins / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def unfinished(self) -> list[Path]:
        """What is left of runs that were not finished; locks stay."""
        checkpoints = self.results / ".work" / "checkpoints"
        return [*(self.results / "runs").glob(".*"), *(checkpoints.iterdir() if checkpoints.exists() else ())]


def comparable(table: pd.DataFrame) -> list[dict[str, object]]:
    """What two tables of the same runs have in common: all but times and memory."""
    return table.drop(columns=[name for name in VARYING if name in table.columns]).to_dict("records")


def make_world(root: Path, more: str = COUNTS_TRAININGS) -> World:
    """Return a new world.

    Args:
        root: its folder.
        more: what its plug-in holds beside its victims and attacks; what counts trainings imports torch.
    """
    world = World(root)
    world.plugins.mkdir(parents=True)
    (world.plugins / "mini.py").write_text(PLUGIN + more)
    rng = np.random.default_rng(0)
    np.savez(
        world.plugins / "mini.npz",
        train_images=rng.integers(0, 256, (8, 12, 12), dtype=np.uint8),
        train_labels=np.arange(8) % 2,
        test_images=rng.integers(0, 256, (4, 12, 12), dtype=np.uint8),
        test_labels=np.arange(4) % 2,
    )
    return world
