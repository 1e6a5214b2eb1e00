"""A kill -9 in the middle of an audit loses the attack that ran, and no other."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from owners import small_cnn
from processes import environment

from attacks.inversion import Inversion
from bench.experiments.audit.model import Audit

ATTACKS = '''
import os
import time

import numpy as np

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction
from attacks.inversion import Inversion

Inversion.supports = lambda self, victim: "too slow for a test"


class First(Attack[AttackParams]):
    """Returns training images."""

    name = "a-first"
    summary = "returns training images"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS})
    Params = AttackParams

    def reconstruct(self, view, ctx):
        with open(os.environ["BENCH_CALLS"], "a") as calls:
            calls.write(self.name + "\\n")
        images = torch.from_numpy(np.load(HERE / "images.npz")["train_images"][:12]).permute(0, 3, 1, 2)
        return Reconstruction((images - 0.5) / 0.25)


class Second(First):
    """Hangs when it is called first."""

    name = "b-second"

    def reconstruct(self, view, ctx):
        found = super().reconstruct(view, ctx)
        if open(os.environ["BENCH_CALLS"]).read().count(self.name) == 1:
            time.sleep(600)
        return Reconstruction(found.candidates[:6])
'''


def test_a_killed_audit_goes_on_with_the_attack_that_was_running(
    tmp_path: Path, followed: Callable[..., Any], forked: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Inversion, "supports", Inversion.supports)  # the file changes it in this process too
    file, results, calls = small_cnn.make(tmp_path), tmp_path / "results", tmp_path / "calls"
    file.write_text(file.read_text() + ATTACKS)
    given = environment(tmp_path, BENCH_JOBS="1", BENCH_CALLS=str(calls))
    words = ("audit", file, "--budget", "600s", "--results-dir", results, "--device", "cpu")
    running = forked(given, *words, own_server=False)
    deadline = time.monotonic() + 300
    while not (calls.exists() and "b-second" in calls.read_text()):
        assert time.monotonic() < deadline
        assert running.returncode is None, running.communicate()
        time.sleep(0.1)
    running.kill()
    running.communicate()
    folder = results / "audits" / "mine"
    assert not (folder / "audit.json").exists(), "no verdict before its end"

    again = followed(given, *words)
    assert again.status == 0, again.err
    assert calls.read_text().split() == ["a-first", "b-second", "b-second"]
    found = Audit.model_validate_json((folder / "audit.json").read_text())
    assert {one.attack: one.found for one in found.attempts if one.status} == {"a-first": 12, "b-second": 6}
