"""What a bad input is built from, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.publish.leaderboard import write_tables
from bench.store.records import RunRecord

Words = list[object]


@dataclass
class Scene:
    """What a case may build on."""

    root: Path
    plugins: Path
    monkeypatch: pytest.MonkeyPatch
    record: Callable[..., RunRecord]

    def run(self, *words: object, victim: str = "faces-mlp-4-tiny", attack: str = "tiny") -> Words:
        """A run that would work but for `words`."""
        name, folder, results = ("--attack", "--plugin-dir", "--results-dir")
        plain = {name: attack, "--victim": victim, folder: self.plugins, results: self.root / "results"}
        given = [word for option, value in plain.items() if option not in words for word in (option, value)]
        return ["run", *given, *words]

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def plugin(self, name: str, content: str, victim: str = "faces-mlp-4-tiny", attack: str = "tiny") -> Words:
        """A run with the tiny attacks and another plug-in file."""
        self.file("plugins/tiny.py", (self.plugins / "tiny.py").read_bytes())
        self.file(f"plugins/{name}", content)
        return self.run("--plugin-dir", self.root / "plugins", victim=victim, attack=attack)

    def victim(self, dataset: object, n: int = 4) -> Words:
        """A run on a victim with data of one's own."""
        return self.plugin(
            "own.py",
            "from victims.spec import *\n"
            f"VICTIMS = (VictimSpec(name='own-mlp-{n}', dataset={str(dataset)!r}, n={n},"
            " architecture=MLPSpec(hidden=(8,)), training=NormalizedDescent(steps=5)),)\n",
            victim=f"own-mlp-{n}",
        )

    def data(self, n: int = 4, drop: str = "", **changes: Any) -> Words:
        """A run on an .npz file that holds a dataset but for `changes`."""
        rng = np.random.default_rng(0)
        whole = {
            "train_images": rng.integers(0, 256, (8, 12, 12), dtype=np.uint8),
            "train_labels": np.arange(8) % 2,
            "test_images": rng.integers(0, 256, (4, 12, 12), dtype=np.uint8),
            "test_labels": np.arange(4) % 2,
        }
        arrays = {name: value for name, value in (whole | changes).items() if name != drop}
        np.savez(self.root / "data.npz", **arrays)
        return self.victim(self.root / "data.npz", n)

    def runs_csv(self, name: str, *records: RunRecord, replace: tuple[str, str] | None = None) -> Path:
        write_tables(self.root / name, list(records) or [self.record()])
        path = self.root / name / "runs.csv"
        if replace:
            assert replace[0] in path.read_text()
            path.write_text(path.read_text().replace(*replace))
        return path

    def compare(self, bad: Path) -> Words:
        return ["compare", self.runs_csv("good"), bad]


CASES: dict[str, tuple[Callable[[Scene], Words], str]] = {}
"""Name: (builder of the command line, what the message must say)."""


def case(words: str) -> Callable[[Callable[[Scene], Words]], Callable[[Scene], Words]]:
    def add(build: Callable[[Scene], Words]) -> Callable[[Scene], Words]:
        CASES[build.__name__] = build, words
        return build

    return add


def simple(name: str, words: str, *line: object) -> None:
    CASES[name] = (lambda scene: scene.run(*line)), words
