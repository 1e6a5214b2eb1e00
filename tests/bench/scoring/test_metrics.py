"""The metrics, each against its definition or a library."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from pictures import random_images
from skimage.metrics import structural_similarity
from torch import Tensor

from bench.scoring import METRICS, Evidence, Metric, measure
from bench.scoring.metrics import identified, mse, nearest_neighbour_mse, pearson, psnr
from bench.scoring.ssim import ssim_wang, ssim_window3


def slow_ssim_window3(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """The definition, pixel by pixel: Gaussian weights on a 3 x 3 window, borders reflected."""
    weights = {step: math.exp(-(step[0] ** 2 + step[1] ** 2) / (2 * 1.5**2)) for step in product((-1, 0, 1), repeat=2)}
    total = sum(weights.values())
    channels, height, width = x.shape
    values = []
    for c, i, j in product(range(channels), range(height), range(width)):
        mx = my = mxx = myy = mxy = 0.0
        for (di, dj), weight in weights.items():
            row = height - 1 - abs(height - 1 - abs(i + di))
            column = width - 1 - abs(width - 1 - abs(j + dj))
            a, b, w = x[c, row, column], y[c, row, column], weight / total
            mx, my, mxx, myy, mxy = mx + w * a, my + w * b, mxx + w * a * a, myy + w * b * b, mxy + w * a * b
        vx, vy, cov = mxx - mx * mx, myy - my * my, mxy - mx * my
        values.append((2 * mx * my + 1e-4) * (2 * cov + 9e-4) / ((mx * mx + my * my + 1e-4) * (vx + vy + 9e-4)))
    return float(np.mean(values))


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 25, 25), (1, 11, 13)])
def test_ssim_wang_is_scikit_images(shape: tuple[int, int, int]) -> None:
    x, y = random_images(3, *shape), random_images(3, *shape, seed=1)
    y = 0.7 * x + 0.3 * y
    for value, a, b in zip(ssim_wang(x, y), x.double().numpy(), y.double().numpy(), strict=True):
        expected = structural_similarity(
            a.transpose(1, 2, 0),
            b.transpose(1, 2, 0),
            channel_axis=2,
            data_range=1,
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
        )
        assert float(value) == pytest.approx(expected, abs=1e-6)


def test_ssim_wang_of_tiny_images_is_nan() -> None:
    assert ssim_wang(random_images(2, 1, 8, 8), random_images(2, 1, 8, 8)).isnan().all()


@pytest.mark.parametrize("shape", [(3, 9, 7), (1, 8, 8), (1, 2, 3)])
def test_ssim_window3_is_its_definition(shape: tuple[int, int, int]) -> None:
    x, noise = random_images(4, *shape), random_images(4, *shape, seed=1)
    y = x.lerp(noise, torch.tensor([0.0, 0.2, 0.6, 1.0])[:, None, None, None])
    expected = [slow_ssim_window3(a, b) for a, b in zip(x.double().numpy(), y.double().numpy(), strict=True)]
    torch.testing.assert_close(ssim_window3(x, y), torch.tensor(expected), atol=1e-5, rtol=0)


PAIRWISE = [metric for metric in METRICS.values() if metric.name not in ("lpips", "kl", "oracle_mse")]


@pytest.mark.parametrize("metric", PAIRWISE, ids=lambda metric: metric.name)
def test_identity_is_the_best_value_and_others_stay_in_range(metric: Metric) -> None:
    x, y = random_images(4, 3, 16, 16), random_images(4, 3, 16, 16, seed=1)
    low, high = metric.range
    same, other = (metric.function(Evidence(images, x, x[:0])) for images in (x, y))
    torch.testing.assert_close(same, torch.full((4,), float(high if metric.direction == "higher" else low)))
    assert ((other >= low) & (other <= high)).all()
    if metric.name != "identified":
        assert ((other < same) if metric.direction == "higher" else (other > same)).all()


@pytest.mark.parametrize("function", [ssim_wang, ssim_window3, mse, psnr, pearson])
def test_pairs_must_fit(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    x = random_images(4, 3, 16, 16)
    with pytest.raises(ValueError, match="one shape"):
        function(x, x[:1])


def test_mse_and_psnr() -> None:
    x = torch.zeros(1, 1, 12, 12)
    assert mse(x, x + 0.1).item() == pytest.approx(0.01)
    assert psnr(x, x + 0.1).item() == pytest.approx(20, abs=1e-4)
    assert psnr(x, x).item() == 100


def test_pearson_is_numpys_and_ignores_scale_and_offset() -> None:
    x, y = random_images(3, 3, 8, 8), random_images(3, 3, 8, 8, seed=1)
    y = x.lerp(y, 0.5)
    expected = [np.corrcoef(a.flatten(), b.flatten())[0, 1] for a, b in zip(x.numpy(), y.numpy(), strict=True)]
    torch.testing.assert_close(pearson(x, y), torch.tensor(expected).float(), atol=1e-5, rtol=0)
    torch.testing.assert_close(pearson(0.1 * x + 0.5, y), pearson(x, y), atol=1e-5, rtol=0)
    torch.testing.assert_close(pearson(1 - x, y), -pearson(x, y), atol=1e-5, rtol=0)
    assert pearson(torch.full_like(x, 0.3), y).tolist() == [0, 0, 0]
    assert pearson(0.3 + 1e-12 * y.double(), y).tolist() == [0, 0, 0]  # flat but for rounding


def test_pearson_leaves_what_the_best_affine_fit_leaves() -> None:
    x, y = random_images(1, 1, 8, 8), random_images(1, 1, 8, 8, seed=1)
    design = np.stack([x.flatten().double().numpy(), np.ones(64)], axis=1)
    target = y.flatten().double().numpy()
    residual = np.linalg.lstsq(design, target, rcond=None)[1][0]
    left = residual / np.square(target - target.mean()).sum()
    assert 1 - pearson(x, y).item() ** 2 == pytest.approx(left, abs=1e-6)


def test_identified_means_nearest_to_its_own_among_training_and_held_out_images() -> None:
    truth, held_out = random_images(3, 3, 8, 8), random_images(2, 3, 8, 8, seed=1)
    images = torch.stack([0.5 * truth[0] + 0.2, truth[2], held_out[1]])
    assert identified(Evidence(images, truth, held_out)).tolist() == [1, 0, 0]
    assert identified(Evidence(torch.full_like(truth, 0.5), truth, held_out)).tolist() == [0, 0, 0]


def test_the_mse_of_the_nearest_neighbour_is_that_of_the_nearest_of_the_pool() -> None:
    truth, pool = random_images(3, 3, 8, 8), random_images(5, 3, 8, 8, seed=1)
    pool[4] = truth[1]
    expected = (truth[:, None] - pool[None]).square().mean((2, 3, 4)).amin(1)
    torch.testing.assert_close(nearest_neighbour_mse(Evidence(truth, truth, pool)), expected)
    assert nearest_neighbour_mse(Evidence(truth, truth, pool[:0])).tolist() == [math.inf] * 3


def test_a_metric_that_fails_costs_its_own_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(evidence: Evidence) -> Tensor:
        raise ZeroDivisionError("the wheel came off\nand rolled away")

    def nan(evidence: Evidence) -> Tensor:
        return torch.tensor([0.5, math.nan, math.nan])

    def short(evidence: Evidence) -> Tensor:
        return torch.zeros(2)

    for name, function in (("broken", broken), ("nan", nan), ("short", short)):
        metric = dataclasses.replace(METRICS["mse"], name=name, function=function)
        monkeypatch.setitem(METRICS, name, metric)
    truth = random_images(3, 3, 8, 8)
    values, failed = measure(Evidence(truth, truth, truth[:0]), ("broken", "nan", "mse", "short"))
    assert list(values) == ["mse"]
    assert values["mse"].tolist() == [0, 0, 0]
    assert failed == {
        "broken": "ZeroDivisionError: the wheel came off and rolled away",
        "nan": "it is not a number for 2 of 3 images",
        "short": "it gave (2,) numbers for 3 images",
    }
