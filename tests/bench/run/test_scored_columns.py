"""Each column of a row is measured on what its name says: which protocol, which images, which of them count."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from attacking import DECAYED, digits_network, victim_of
from stored_runs import only_run
from torch import Tensor

from bench.run.artifacts import _examples
from bench.scoring import METRICS, PROTOCOLS, Evidence, Truth
from bench.scoring.evaluation import (
    COUNT_PROTOCOLS,
    Evaluation,
    LearnedMetrics,
    Reference,
    counts,
    evaluate,
    mean_image_scores,
)
from bench.scoring.matching import stretch
from bench.scoring.metrics import mse

ROW = PROTOCOLS["buzaglo2023"]


def textures(count: int, seed: int) -> Tensor:
    """Smooth unlike images (count, 3, 24, 24) that fill [0, 1]."""
    coarse = torch.rand(count, 3, 12, 12, generator=torch.Generator().manual_seed(seed))
    return stretch(torch.nn.functional.interpolate(coarse, 24, mode="bilinear"))


def reference_of(images: Tensor, mean: Tensor, held_out: Tensor) -> Reference:
    return Reference(Truth(images, mean, torch.ones(len(images))), held_out)


def scored(candidates: Tensor, reference: Reference, protocol: str = "buzaglo2023") -> Evaluation:
    return evaluate(PROTOCOLS[protocol], candidates, None, reference, LearnedMetrics())


def test_a_count_is_that_of_the_protocol_in_its_name() -> None:
    truth = textures(5, 0)
    evaluation = scored(truth - 0.5, reference_of(truth, torch.full((3, 24, 24), 0.5), truth[:0]))
    assert {column: scores.protocol.name for column, scores in evaluation.by_column.items()} == {
        "n_good": "buzaglo2023",
        "n_good_haim_min": "haim2022-min",
        "n_good_haim_mean": "haim2022-mean",
        "n_good_unique": "buzaglo2023-unique",
        "n_good_assigned": "assigned",
    }
    assert {"n_good", *COUNT_PROTOCOLS} == set(counts(evaluation.by_column))


def test_the_metrics_are_means_over_the_reconstructions_of_the_rows_protocol() -> None:
    """Faint candidates are the images when stretched, and the mean image when not."""
    truth = textures(9, 0)
    mean = truth.mean(0)
    noise = torch.linspace(0, 0.3, 9)[:, None, None, None] ** 2 * textures(9, 1)
    reference = reference_of(truth, mean, textures(4, 2))
    for protocol in ("buzaglo2023", "assigned"):
        evaluation = scored(0.5 * (truth - mean) + noise, reference, protocol)
        shown, columns = evaluation.row.reconstruction, evaluation.columns()
        expected = {
            name: METRICS[name].function(Evidence(shown, truth, truth[:0])) for name in ("mse", "psnr", "pearson")
        }
        for name, values in expected.items():
            assert columns[f"{name}_mean"] == pytest.approx(values.mean().item(), rel=1e-5)
            assert abs(values.mean() / values.median() - 1) > 1e-3
        assert columns["mse_best"] == pytest.approx(expected["mse"].min().item(), rel=1e-5)


def test_an_image_nearer_to_a_held_out_one_is_not_identified() -> None:
    truth, held_out = textures(6, 0), textures(6, 1)
    mean = torch.full((3, 24, 24), 0.5)
    mixed = torch.cat([0.8 * truth[:4] + 0.2 * held_out[:4], 0.2 * truth[4:] + 0.8 * held_out[4:]])
    reference = reference_of(truth, mean, held_out)
    assert scored(mixed - mean, reference).columns()["identified"] == pytest.approx(4 / 6)


def test_what_nobody_found_is_above_no_bar_and_no_false_positive() -> None:
    """The mean image stands in for what no candidate serves, and may be like a training or a held-out image."""
    truth, held_out = textures(8, 0), textures(200, 1)
    held_out[0], held_out[1:4] = truth[5], truth[5].lerp(held_out[1:4], 0.2)
    reference = reference_of(truth, truth[5], held_out)
    evaluation = scored((truth - truth[5])[[2, 3]], reference, "assigned")
    columns = evaluation.columns()
    assert evaluation.row.found.nonzero().flatten().tolist() == [2, 3]
    assert evaluation.row.ssim[5] == evaluation.row.ssim[2] == 1
    assert int((evaluation.held_out > 0).sum()) <= 2  # the two that the two candidates serve
    assert columns["false_positive_rate"] == 0
    assert columns["n_good_at_1pct"] == columns["n_good"] == 2
    assert columns["ssim_mean"] == pytest.approx(evaluation.row.ssim.mean().item())


def test_what_nobody_found_is_shown_as_no_best_reconstruction() -> None:
    truth = textures(8, 0)
    reference = reference_of(truth, truth[5], textures(4, 1))
    evaluation = scored((truth - truth[5])[[2, 3]] + 0.01, reference, "assigned")
    shown = _examples(reference, evaluation)
    assert int(evaluation.row.ssim.argmax()) == 5
    assert sorted(shown["image"][shown["group"] == 0].tolist()) == [2, 3]


def test_who_returns_the_nearest_image_at_hand_does_not_beat_it() -> None:
    truth, pool = textures(5, 0), textures(20, 1)
    nearest = pool[[int(mse(pool, image.expand_as(pool)).argmin()) for image in truth]]
    reference = Reference(Truth(truth, torch.zeros(3, 24, 24), mse(nearest, truth)), pool)
    columns = scored(nearest, reference, "balle2022").columns()
    assert (columns["n_good"], columns["beats_oracle"]) == (0, 0)
    assert columns["mse_mean"] == columns["oracle_mse"]


def test_a_protocol_that_is_one_to_one_ranks_by_its_own_count() -> None:
    """Stretched, faint candidates are the images; as they are, held-out images are nearer."""
    truth, pool = textures(5, 0), textures(20, 1)
    nearest = torch.stack([mse(pool, image.expand_as(pool)).min() for image in truth])
    reference = Reference(Truth(truth, torch.zeros(3, 24, 24), nearest), pool)
    faint = truth * torch.tensor([1, 1, 0.1, 0.1, 0.1])[:, None, None, None]
    columns = scored(faint, reference, "nearest-public").columns()
    assert (columns["n_good"], columns["n_good_unique"], columns["n_good_haim_min"]) == (2, 2, 5)


def test_the_quantiles_are_of_the_mse_over_targets() -> None:
    truth = torch.zeros(101, 1, 8, 8)
    found = torch.linspace(0, 1, 101).sqrt()[:, None, None, None].expand_as(truth)
    reference = Reference(Truth(truth, torch.zeros(1, 8, 8), torch.ones(101)), truth[:0])
    columns = scored(found, reference, "balle2022").columns()
    assert [columns[name] for name in ("mse_p1", "mse_p10", "mse_p50")] == pytest.approx([0.01, 0.1, 0.5], abs=1e-5)


def test_the_confidence_is_judged_under_the_rows_protocol() -> None:
    """Stretched, faint candidates are hits; as they are, they are too dark."""
    truth = textures(5, 0)
    reference = reference_of(truth, torch.zeros(3, 24, 24), truth[:0])
    rates = [
        evaluate(PROTOCOLS[name], 0.01 * truth, torch.arange(5.0), reference, LearnedMetrics()).columns()["base_rate"]
        for name in ("buzaglo2023", "assigned")
    ]
    assert rates == [1, 0]


def test_records_of_a_table_have_no_lpips() -> None:
    class Ones:
        def __call__(self, images: Tensor, references: Tensor) -> Tensor:
            return torch.ones(len(images))

    learned_metrics = LearnedMetrics(perceptual=Ones(), perceptual_status="fine")  # type: ignore[arg-type]
    for shape, expected in (((1, 1, 12), None), ((1, 12, 12), 1)):
        truth = torch.rand(6, *shape, generator=torch.Generator().manual_seed(0))
        images = Truth(truth, torch.zeros(shape), torch.ones(6))
        reference = Reference(images, truth[:0], tabular=expected is None)
        columns = evaluate(PROTOCOLS["balle2022"], truth, None, reference, learned_metrics).columns()
        assert columns.get("lpips_mean") == expected


def test_the_samples_of_a_run_have_the_means_of_its_row(run: Callable[..., Any], results: Path) -> None:
    run("-a", "first-layer", "--controls", "quick")
    (row,) = pd.read_csv(results / "runs.csv").to_dict("records")
    samples = pd.read_csv(only_run(results) / "per_sample.csv")
    assert (len(samples), samples["good"].sum()) == (4, row["n_good"])
    means = {"ssim": "ssim_mean", "oracle_mse": "oracle_mse", "identified": "identified"}
    means |= {name: f"{name}_mean" for name in ("mse", "psnr", "pearson")}
    for name, column in means.items():
        assert samples[name].mean() == pytest.approx(row[column], rel=1e-4)
    assert samples["ssim"].equals(samples["ssim_buzaglo2023"])
    assert not samples["ssim"].equals(samples["ssim_haim2022-min"])


# --- the images that a victim stands for


def test_the_mean_image_as_a_control_does_not_depend_on_the_input_space() -> None:
    """Whatever a victim subtracts and divides by, the control shows the mean of its training images."""
    truth = 0.5 * textures(1, 0) + 0.5 * textures(12, 1)
    scale = torch.tensor([0.2, 0.5, 0.3])[:, None, None]
    spaces = [
        (truth.mean(0), torch.ones(())),
        (torch.zeros(3, 24, 24), torch.ones(())),
        (torch.zeros(3, 24, 24), scale),
    ]
    scored = [mean_image_scores(ROW, Truth(truth, mean, torch.ones(12), scale)) for mean, scale in spaces]
    for one in scored:
        torch.testing.assert_close(one["n_good_assigned"].reconstruction, truth.mean(0).expand_as(truth))
    shown = [counts(one) for one in scored]
    assert shown[0] == shown[1] == shown[2]
    assert shown[0]["n_good_assigned"] > 6


def test_a_victims_scale_is_undone_before_its_inputs_are_compared() -> None:
    victim = victim_of(DECAYED)
    dim = dataclasses.replace(victim, scale=np.full((1, 1, 1), 0.5, np.float32))
    reference = Reference.of(dim)
    evaluation = scored(torch.from_numpy(dim.split.inputs), reference, "assigned")
    assert reference.truth.images.std() < 0.8 * Reference.of(victim).truth.images.std()
    assert evaluation.row.n_good == 4
    torch.testing.assert_close(evaluation.row.reconstruction, reference.truth.images)


def test_the_informed_adversary_has_the_fixed_set_and_the_pool() -> None:
    victim = victim_of(digits_network(n=30, targets=5, epochs=3))
    fixed, pool, targets = (
        torch.from_numpy(part.images) for part in (victim.split.fixed, victim.split.pool, victim.split.targets)
    )
    had, reference = torch.cat([fixed, pool]), Reference.of(victim)
    torch.testing.assert_close(reference.truth.mean, had.mean(0))
    nearest = torch.stack([mse(had, image.expand_as(had)).min() for image in targets])
    torch.testing.assert_close(reference.truth.nearest_known_mse, nearest)
    assert torch.equal(reference.truth.images, targets) and len(reference.held_out) == len(had)
    half = scored(0.5 * targets, reference, "balle2022")  # its candidates are images already
    torch.testing.assert_close(half.row.reconstruction, 0.5 * targets)
    assert math.isfinite(half.columns()["oracle_mse"])
