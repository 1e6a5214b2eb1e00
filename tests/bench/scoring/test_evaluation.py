"""All protocols and metrics of a row on planted truths."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bench.scoring import PROTOCOLS, Truth
from bench.scoring.evaluation import (
    Evaluation,
    LearnedMetrics,
    Reference,
    count_scores,
    counts,
    evaluate,
    mean_image_scores,
)
from bench.scoring.matching import ncc_distance
from bench.scoring.metrics import Evidence, nearest_neighbour_mse
from bench.store.records import COLUMNS, COUNTS
from victims.datasets import load, select

ROW = PROTOCOLS["buzaglo2023"]


def textures(count: int, seed: int) -> Tensor:
    """Smooth unlike images (count, 3, 24, 24) that fill [0, 1]."""
    coarse = torch.rand(count, 3, 12, 12, generator=torch.Generator().manual_seed(seed))
    images = torch.nn.functional.interpolate(coarse, 24, mode="bilinear")
    low, high = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
    return (images - low) / (high - low)


def reference_of(images: Tensor, held_out: Tensor) -> Reference:
    return Reference(Truth(images, images.mean(0), nearest_neighbour_mse(Evidence(images, images, held_out))), held_out)


def faces() -> tuple[Reference, Tensor]:
    """100 faces and backgrounds, and what is held out, in the input space."""
    split = select(load("faces", None), 100)
    mean, held_out = torch.from_numpy(split.mean), torch.from_numpy(split.test_inputs)
    reference = Reference(Truth(torch.from_numpy(split.images), mean, torch.ones(100)), (held_out + mean).clamp(0, 1))
    return reference, held_out


def row(candidates: Tensor, reference: Reference, confidence: Tensor | None = None) -> Evaluation:
    return evaluate(ROW, candidates, confidence, reference, LearnedMetrics())


def test_training_images_with_noise_are_all_found_and_nothing_else_is() -> None:
    truth, held_out = textures(30, 0), textures(200, 1)
    reference = reference_of(truth, held_out)
    noise = 0.02 * torch.randn(truth.shape, generator=torch.Generator().manual_seed(2))
    candidates = truth - reference.truth.mean + noise
    evaluation = row(candidates, reference)
    columns = evaluation.columns()

    assert all(columns[name] == 30 for name in COUNTS)
    assert columns["identified"] == columns["beats_oracle"] == 1
    assert columns["false_positive_rate"] == 0
    assert columns["n_good_at_1pct"] == 30
    assert columns["ssim_at_1pct"] < 0.4
    assert columns["pearson_mean"] > 0.95
    assert bool(evaluation.row.good.all())
    assert set(columns) <= set(COLUMNS)


def test_one_in_a_hundred_is_not_told_of_fewer_than_a_hundred_held_out_images() -> None:
    truth = textures(30, 0)
    for count, told in ((99, False), (100, True)):
        reference = reference_of(truth, textures(count, 1))
        columns = row(truth - reference.truth.mean, reference).columns()
        assert ("ssim_at_1pct" in columns, "n_good_at_1pct" in columns) == (told, told)
        assert columns["false_positive_rate"] == 0


def test_one_image_many_times_is_one_unique_image() -> None:
    truth = textures(30, 0)
    reference = reference_of(truth, textures(20, 1))
    repeated = (truth[3:4] - reference.truth.mean).repeat(60, 1, 1, 1)
    evaluation = row(repeated, reference)
    columns = evaluation.columns()
    assert columns["n_good_unique"] == columns["n_good_assigned"] == 1
    assert evaluation.row.good[3]


def test_held_out_images_are_what_the_null_is() -> None:
    """Faces look alike: held-out ones pass for many training images, and must not count as a reconstruction."""
    reference, held_out = faces()
    columns = row(held_out, reference).columns()
    assert columns["n_good"] > 10
    assert columns["false_positive_rate"] > 0.9  # all are among the candidates; stretching spoils some
    assert columns["ssim_at_1pct"] > 0.99
    assert columns["n_good_at_1pct"] == 0
    assert counts(count_scores(ROW, reference.matcher(held_out))) == {name: columns[name] for name in COUNTS}


def test_a_distance_is_computed_once_for_counts_and_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[float] = []

    def watched(truth: Tensor, candidates: Tensor, downscale: float = 1.0) -> Tensor:
        sizes.append(downscale)
        return ncc_distance(truth, candidates, downscale)

    truth = textures(10, 0)
    reference = reference_of(truth, truth[:0])
    monkeypatch.setattr("bench.scoring.scores.ncc_distance", watched)
    evaluation = row(truth - reference.truth.mean, reference, torch.linspace(1, 0, 10))
    assert evaluation.confidence is not None and evaluation.row.n_good == 10
    assert sorted(sizes) == [0.5, 1.0]


def test_nearer_than_the_nearest_public_image_no_public_image_is() -> None:
    truth, held_out = textures(30, 0), textures(200, 1)
    reference, protocol = reference_of(truth, held_out), PROTOCOLS["nearest-public"]
    near = truth.clone()
    near[20:] = held_out[:10]
    columns = evaluate(protocol, near - reference.truth.mean, None, reference, LearnedMetrics()).columns()

    assert counts(count_scores(protocol, reference.matcher(held_out - reference.truth.mean)))["n_good"] == 0
    assert columns["n_good"] == columns["n_good_unique"] == 20
    alone = reference_of(truth, held_out[:0])  # without public images it is judged by SSIM
    assert alone.truth.nearest_known_mse.isinf().all()
    assert count_scores(protocol, alone.matcher(near - alone.truth.mean))["n_good"].n_good == 20


def test_false_positives_are_counted_among_the_held_out_images() -> None:
    truth, held_out = textures(30, 0), textures(200, 1)
    reference = reference_of(truth, held_out)
    blurred, seen = held_out[:5].lerp(textures(5, 2), 0.3), truth[:12].clone()
    seen[6:] = seen[6:].lerp(textures(6, 3), 0.45)
    evaluation = row(torch.cat([seen, blurred]) - reference.truth.mean, reference)
    columns = evaluation.columns()
    assert columns["false_positive_rate"] == pytest.approx(5 / 200)
    # 1% of 200 are 2: the third best of the held-out images sets the bar
    assert columns["ssim_at_1pct"] == pytest.approx(evaluation.held_out.topk(3).values[2].item())
    assert columns["ssim_at_1pct"] < 0.99
    assert columns["n_good_at_1pct"] == 6 < columns["n_good"]


def test_as_good_as_the_bar_is_not_above_it() -> None:
    """Of 200 held-out images three are among the candidates: the bar is perfect."""
    truth, held_out = textures(30, 0), textures(200, 1)
    reference = reference_of(truth, held_out)
    columns = row(torch.cat([truth[:6], held_out[:3]]) - reference.truth.mean, reference).columns()
    assert (columns["ssim_best"], columns["ssim_at_1pct"], columns["n_good_at_1pct"]) == (1, 1, 0)


def test_what_no_candidate_serves_is_found_by_nobody_however_alike_the_mean_image_is() -> None:
    """One candidate serves one image: all others are shown as the mean image, at an SSIM that means nothing."""
    truth, held_out = textures(30, 0), textures(200, 1)
    reference = reference_of(truth, held_out)
    candidates = truth[:1] - reference.truth.mean
    evaluation = evaluate(PROTOCOLS["buzaglo2023-unique"], candidates, None, reference, LearnedMetrics())
    assert int((evaluation.row.ssim[1:] > 0).sum()) > 10
    assert int(evaluation.held_out.count_nonzero()) == 1
    columns = evaluation.columns()
    assert (columns["ssim_at_1pct"], columns["n_good_at_1pct"]) == (0, 1)


def test_as_much_as_is_asked_for_is_not_more() -> None:
    truth = textures(8, 0)
    reference = reference_of(truth, textures(20, 1))
    evaluation = row(0.9 * (truth - reference.truth.mean), reference)
    level = replace(
        evaluation, held_out=torch.full((20,), ROW.threshold), nearest_known_mse=evaluation.values["mse"]
    ).columns()
    assert (level["false_positive_rate"], level["beats_oracle"]) == (0, 0)


def test_the_mean_image_is_shown_as_it_is_whatever_a_unit_of_the_input_is() -> None:
    truth = Truth(textures(8, 0), torch.full((3, 24, 24), 0.1), torch.ones(8), torch.full((3, 1, 1), 0.25))
    shown = mean_image_scores(PROTOCOLS["assigned"], truth)["n_good"].reconstruction
    torch.testing.assert_close(shown, truth.images.mean(0).expand_as(shown))


def test_the_mean_image_as_a_control() -> None:
    reference, _ = faces()
    shown = counts(mean_image_scores(ROW, reference.truth))
    assert set(shown) == set(COUNTS)
    assert 0 < shown["n_good"] < 100  # a face looks like the mean face
    assert row(torch.zeros(5, 1, 25, 25), reference).row.n_good == 0  # but nobody finds it by matching


def test_without_held_out_images() -> None:
    truth = textures(8, 0)
    columns = row(truth - truth.mean(0), reference_of(truth, truth[:0])).columns()
    assert columns["n_good"] == 8
    assert "false_positive_rate" not in columns
    assert "beats_oracle" not in columns


def test_confidence_and_its_base_rate() -> None:
    truth = textures(8, 0)
    reference = reference_of(truth, textures(8, 1))
    candidates = torch.cat([truth, textures(24, 3)]) - reference.truth.mean
    sure = torch.cat([torch.ones(8), torch.zeros(24)])
    columns = row(candidates, reference, sure).columns()
    assert columns["confidence_ap"] == pytest.approx(1, abs=0.2)
    assert 8 / 32 <= columns["base_rate"] < 0.5
    assert columns["precision_at_n"] == 1
    assert columns["precision_at_10"] == pytest.approx((8 + 2 * (32 * columns["base_rate"] - 8) / 24) / 10)
    assert columns["precision_at_50"] == pytest.approx(32 * columns["base_rate"] / 50)
    assert columns["n_found_at_n"] == 8
    assert "confidence_ap" not in row(candidates, reference).columns()


def test_the_best_mse_is_that_of_an_image_that_was_found() -> None:
    """The mean image stands in for what nobody found, and may be nearer to it than any candidate is to its own."""
    truth = textures(8, 0)
    reference = Reference(Truth(truth, truth[5], torch.ones(8)), truth[:0])
    candidates = (0.9 * truth[[2]] + 0.1 * truth[[3]] - truth[5]).expand(3, -1, -1, -1).clone()
    candidates[1], candidates[2] = math.nan, 0
    evaluation = evaluate(PROTOCOLS["assigned"], candidates, None, reference, LearnedMetrics())
    columns = evaluation.columns()
    assert evaluation.row.found.tolist() == [image == 2 for image in range(8)]
    assert evaluation.values["mse"][5] == 0
    assert columns["mse_best"] == pytest.approx(float(evaluation.values["mse"][2])) != 0
    none = evaluate(PROTOCOLS["assigned"], candidates[1:], None, reference, LearnedMetrics()).columns()
    assert (none["mse_best"], none["ssim_best"], none["ssim_top10"]) == (None, None, None)


def test_a_metric_that_cannot_be_measured_says_so() -> None:
    class Broken:
        def __call__(self, images: Tensor, references: Tensor) -> Tensor:
            return torch.full((len(images),), math.nan)

    truth = textures(8, 0)
    learned_metrics = LearnedMetrics(perceptual=Broken(), perceptual_status="fine")  # type: ignore[arg-type]
    evaluation = evaluate(ROW, truth - truth.mean(0), None, reference_of(truth, truth[:0]), learned_metrics)
    columns = evaluation.columns()
    assert "lpips_mean" not in columns
    assert columns["lpips_status"] == evaluation.failed["lpips"] == "it is not a number for 8 of 8 images"
    assert columns["kl_status"] == "not measured"
    assert columns["n_good"] == 8
