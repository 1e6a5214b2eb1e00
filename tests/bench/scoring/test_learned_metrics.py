"""LPIPS and KL as a run measures them: the true network, a true judge, and the columns where their numbers arrive."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lpips
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, victim_of
from safetensors.torch import load_file, save_file
from stored_runs import only_run
from torch import Tensor, nn
from trunks import state_dict

from bench.plan import registry
from bench.scoring import PROTOCOLS, score
from bench.scoring.evaluation import Reference
from bench.scoring.judges import Judge, obtain_judge
from bench.scoring.lpips.weights import LAYERS

VICTIM = "digits-mlp-6-tiny"
Bench = Callable[..., Any]


@pytest.fixture
def no_learned_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of the fixture of that name: both measure, LPIPS with a trunk of noise."""
    generator = torch.Generator().manual_seed(0)
    trunk = state_dict(lambda shape: torch.randn(shape, generator=generator) / math.prod(shape[1:]) ** 0.5)
    save_file(trunk, tmp_path / "trunk.safetensors")
    monkeypatch.setenv("BENCH_LPIPS_WEIGHTS", str(tmp_path / "trunk.safetensors"))


@pytest.fixture
def row(run: Bench, results: Path) -> Callable[[], dict[str, Any]]:
    """Attack the tiny victim of digits and return the row."""

    def call() -> dict[str, Any]:
        ended = run("-a", "first-layer", "-v", VICTIM, "--controls", "quick")
        assert ended.status == 0, ended.err
        (found,) = pd.read_csv(results / "runs.csv").to_dict("records")
        return {str(name): value for name, value in found.items()}

    return call


def lpips_of(images: Tensor, references: Tensor, trunk: dict[str, Tensor]) -> Tensor:
    """The authors' network, given a trunk by hand, on images enlarged by hand."""
    network = lpips.LPIPS(net="alex", pnet_rand=True, verbose=False)
    convolutions = [module for module in network.net.modules() if isinstance(module, nn.Conv2d)]
    for module, layer in zip(convolutions, LAYERS, strict=True):
        module.load_state_dict({kind: trunk[f"features.{layer}.{kind}"] for kind in ("weight", "bias")})
    shown = (F.interpolate(one, (64, 64), mode="bilinear").repeat(1, 3, 1, 1) for one in (images, references))
    with torch.no_grad():
        distances: Tensor = network(*shown, normalize=True).flatten()
    return distances


def kl_of(images: Tensor, references: Tensor, judge: Judge) -> Tensor:
    """KL(p(training image) || p(reconstruction)), by torch."""
    with torch.no_grad():
        image, reference = (judge.model(one).double().log_softmax(1) for one in (images, references))
    return F.kl_div(image, reference, reduction="none", log_target=True).sum(1)


def served(results: Path, plugins: Path) -> tuple[Tensor, Tensor]:
    """The reconstruction that the row's protocol takes of each training image, and the training images."""
    reference = Reference.of(victim_of(registry.victims(plugins).items[VICTIM]))
    candidates = load_file(only_run(results) / "reconstruction.safetensors")["candidates"]
    return score(PROTOCOLS["buzaglo2023"], reference.matcher(candidates)).reconstruction, reference.truth.images


@pytest.mark.filterwarnings("ignore::UserWarning")  # lpips calls torchvision in a deprecated way
def test_a_row_holds_what_each_network_measured(
    row: Callable[[], dict[str, Any]], results: Path, plugins: Path, tmp_path: Path
) -> None:
    found = row()
    images, truth = served(results, plugins)
    judge = obtain_judge("digits", None, CPU, lambda *progress: None, lambda notice: None)  # the one in the cache
    measured = {
        "lpips": lpips_of(images, truth, load_file(tmp_path / "trunk.safetensors")),
        "kl": kl_of(images, truth, judge),
    }
    per_sample = pd.read_csv(only_run(results) / "per_sample.csv")
    board = pd.read_csv(results / "leaderboard.csv").iloc[0]
    for name, values in measured.items():
        assert values.min() > 1e-3
        assert per_sample[name].tolist() == pytest.approx(values.tolist(), rel=1e-3)
        mean = pytest.approx(values.mean().item(), rel=1e-3)
        assert (found[f"{name}_mean"], board[f"{name}_mean"]) == (mean, mean)
    assert abs(measured["lpips"].mean() / measured["kl"].mean() - 1) > 0.1  # they could not stand for each other
    assert (kl_of(truth, images, judge) / measured["kl"] - 1).abs().max() > 0.1  # nor could the other direction


def test_a_row_says_who_measured(row: Callable[[], dict[str, Any]]) -> None:
    found = row()
    assert found["lpips_status"].startswith("lpips 0.1 alex, trunk from trunk.safetensors (sha256 ")
    assert found["kl_status"].startswith("judge lenet on digits, accuracy 0.")
    assert "failed_" not in str(found["flags"])


def test_without_one_network_the_other_measures(
    row: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_LPIPS_WEIGHTS", str(tmp_path / "absent.safetensors"))
    found = row()
    assert "absent.safetensors as LPIPS weights: there is no such file" in found["lpips_status"]
    assert math.isnan(found["lpips_mean"])
    assert found["kl_status"].startswith("judge lenet on digits")
    assert found["kl_mean"] > 0


def test_without_a_judge_lpips_measures(
    row: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path / "cache"))  # which holds no judge
    monkeypatch.setattr("bench.scoring.judges.examples.PER_CLASS", 1000)
    found = row()
    assert found["kl_status"].startswith("unavailable: no judge for digits: 1438 training images of 10 classes")
    assert math.isnan(found["kl_mean"])
    assert found["lpips_status"].startswith("lpips 0.1 alex")
    assert found["lpips_mean"] > 0
