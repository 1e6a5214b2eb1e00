"""A model of somebody's own whose attacks are known to the image, and its audit."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from owners import ordinary

from attacks.context import Budget
from bench.experiments.audit.verb import Asked, audit
from bench.plan import registry
from bench.run.session import Session
from bench.run.setup import Setup
from bench.scoring.evaluation import LearnedMetrics

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE_MS = 60_000
KNOWN = 20
"""Training images that the attack `leak` returns."""
ATTACKS = '''
from typing import ClassVar

import numpy as np
import torch

from attacks.base import Attack, AttackParams, Knowledge, Reconstruction

ENDS = {"calls": 0}


class Leak(Attack[AttackParams]):
    """Returns training images, and noise."""

    name = "leak"
    summary = "returns training images"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.WEIGHTS})
    Params = AttackParams

    def reconstruct(self, view, ctx):
        ENDS["calls"] += 1
        images = np.load(HERE / "images.npz")["train_images"][:KNOWN]
        known = (torch.from_numpy(images).permute(0, 3, 1, 2) - 0.5) / 0.25
        noise = torch.randn(5, *known.shape[1:], generator=ctx.generator)
        return Reconstruction(candidates=torch.cat([known, noise]))


class Half(Leak):
    """Returns half of them."""

    name = "half"

    def reconstruct(self, view, ctx):
        found = super().reconstruct(view, ctx)
        return Reconstruction(candidates=found.candidates[KNOWN // 2 :])


class Blind(Leak):
    """Asks the model once, and returns noise."""

    name = "blind"
    needs = frozenset({Knowledge.ARCHITECTURE, Knowledge.LOGITS})

    def reconstruct(self, view, ctx):
        noise = torch.randn(30, *view.architecture.input_shape, generator=ctx.generator)
        view.logits(noise)
        return Reconstruction(candidates=noise)


class Sceptic(Leak):
    """Works nowhere."""

    name = "sceptic"

    def doubt(self, exposure):
        return f"it has {exposure.hidden} hidden layers"
'''


@pytest.fixture
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, of the extra [dev]")
    if CHROMIUM is None:
        pytest.skip("needs chromium on the PATH: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, timeout=PATIENCE_MS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that describes a model, and attacks on it of which all is known."""
    file = ordinary.make(tmp_path_factory.mktemp("owner"))
    file.write_text(file.read_text() + f"\nKNOWN = {KNOWN}\n" + ATTACKS)
    return file


@pytest.fixture(scope="session")
def alone() -> Callable[[pytest.MonkeyPatch], None]:
    """Let no attack of this suite be tried, and few seeds."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for attack in registry.attacks().items.values():
            monkeypatch.setattr(attack, "supports", lambda self, victim: "too slow for a test")
        monkeypatch.setattr("victims.exposure.reading.SEEDS", 200)

    return patch


@pytest.fixture
def audited(
    bench: Callable[..., Any],
    model: Path,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    alone: Callable[[pytest.MonkeyPatch], None],
) -> Callable[..., Any]:
    """Audit the model with its own attacks alone."""
    alone(monkeypatch)

    def call(*words: object, file: Path = model) -> Any:
        return bench("audit", file, "--budget", "60s", "--results-dir", results, "--device", "cpu", *words)

    return call


@dataclass(frozen=True)
class Done:
    """An audit that has ended: the results folder, the audit's folder in it, and what was printed."""

    results: Path
    folder: Path
    out: str


@pytest.fixture(scope="session")
def done(
    model: Path,
    cache_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
    alone: Callable[[pytest.MonkeyPatch], None],
) -> Done:
    """The audit of the model, made once; no test changes it."""
    return made(model, cache_dir, tmp_path_factory.mktemp("audited") / "results", alone)


def made(file: Path, cache_dir: Path, root: Path, alone: Callable[[pytest.MonkeyPatch], None]) -> Done:
    """Audit the model that a file describes, with its own attacks alone."""
    heard = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(heard):
        alone(patch)
        patch.setenv("BENCH_CACHE_DIR", str(cache_dir))
        patch.setenv("COLUMNS", "250")
        unmeasured = LearnedMetrics(perceptual_status="not in tests", judge_status="not in tests")
        patch.setattr(Session, "learned_metrics", lambda self, dataset: unmeasured)
        attacks, spec = registry.attacks(file), registry.released_model(registry.victims(file), file, "")
        folder = root / "audits" / "mine"
        setup = Setup(folder, None, file, "cpu", twins=False, jobs=0)
        assert audit(spec, attacks, setup, Asked(file, Budget(seconds=60))) == 0
    return Done(root, folder, heard.getvalue())


@pytest.fixture(scope="session")
def make_audit() -> Callable[..., Done]:
    """Audit the model that a file describes, see `made`."""
    return made
