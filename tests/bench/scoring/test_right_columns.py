"""Rows of a table: which columns are right, and which rows are reconstructed."""

from __future__ import annotations

import math

import pytest
import torch
from attacking import AFFINE, victim_of
from scipy.stats import norm
from torch import Tensor

from bench.plan import registry
from bench.plan.run import Run
from bench.scoring import PROTOCOLS, Matcher, Truth, score
from bench.scoring.columns import TOLERANCE, right_columns, wrong_columns
from bench.scoring.confidence import confidence_curve
from bench.scoring.evaluation import LearnedMetrics, Reference, evaluate
from victims.dataset_files import TABLES
from victims.datasets.sources import TABULAR
from victims.spec import MLPSpec, Regularised, VictimSpec

ROWS = PROTOCOLS["vero2023"]


def table(n: int, columns: int, seed: int = 0) -> Tensor:
    """Rows (n, 1, 1, columns) in [0, 1], the columns of different spread."""
    spread = torch.linspace(0.1, 1, columns)
    return torch.rand(n, 1, 1, columns, generator=torch.Generator().manual_seed(seed)) * spread


def truth(rows: Tensor) -> Truth:
    return Truth(rows, torch.zeros(rows.shape[1:]), torch.full((len(rows),), math.inf))


def test_a_column_is_right_within_its_tolerance() -> None:
    """By hand: deviations of 1, 2 and 0; the constant column is not counted."""
    deviation = torch.tensor([1.0, 2.0, 0.0]).reshape(1, 1, 3)
    reference = torch.zeros(1, 1, 1, 3)
    within, beyond = TOLERANCE * 0.999, TOLERANCE * 1.001
    rows = torch.tensor([[within, beyond, 9.0], [-beyond, 2 * within, 0.0], [beyond, 2 * beyond, 0.0], [0.0, 0.0, 5.0]])
    rows = torch.cat([rows, torch.tensor([[TOLERANCE, -2 * TOLERANCE, 0.0]])])  # the tolerance itself is within
    shares = right_columns(rows.reshape(5, 1, 1, 3), reference, deviation)
    assert shares.tolist() == [1.0, 0.5, 0.0, 1.0, 1.0]
    assert right_columns(reference, reference, torch.zeros(1, 1, 3)).tolist() == [0.0]


def test_a_column_deviates_over_the_rows_that_there_are() -> None:
    """Population deviations: those of no larger set, of which the training rows were a sample."""
    rows = torch.tensor([[0.0, 0.2], [1.0, 0.4]]).reshape(2, 1, 1, 2)
    assert truth(rows).deviation.flatten().tolist() == pytest.approx([0.5, 0.1])


def test_the_mean_of_a_gaussian_column_is_right_for_one_record_in_four() -> None:
    assert norm.cdf(TOLERANCE) - norm.cdf(-TOLERANCE) == pytest.approx(0.25, abs=5e-4)


def test_planted_rows_are_found_in_any_order_among_others() -> None:
    rows, others = table(12, 10), table(300, 10, seed=1)  # more than are compared at once
    order = torch.randperm(312, generator=torch.Generator().manual_seed(2))
    scores = score(ROWS, Matcher(torch.cat([rows, others])[order], truth(rows)))
    assert order[scores.candidate].tolist() == list(range(12))
    assert scores.n_good == 12
    assert scores.ssim.isnan().all()


def test_a_row_needs_more_than_nine_columns_in_ten() -> None:
    rows = table(8, 20)
    off = torch.zeros(8, 1, 1, 20)
    off[0, ..., :1], off[1, ..., :2] = 1, 1  # 19 and 18 of 20 right
    scores = score(ROWS, Matcher(torch.where(off > 0, 1 - rows.round(), rows), truth(rows)))
    assert scores.similarity[:2].tolist() == [0.95, 0.9]
    assert scores.good.tolist() == [True, False] + [True] * 6


def test_a_candidate_serves_one_row_and_the_most_rows_are_served() -> None:
    """Row 0 would take either candidate, row 1 only the first: both are served."""
    rows = torch.tensor([[0.5] * 10, [0.6] * 10, [0.0] * 10, [1.0] * 10]).reshape(4, 1, 1, 10)
    candidates = torch.stack([rows[1] - 0.05, rows[0] - 0.08])
    scores = score(ROWS, Matcher(candidates, truth(rows)))
    assert scores.good.tolist() == [True, True, False, False]
    assert scores.candidate.tolist() == [1, 0, -1, -1]
    assert score(ROWS, Matcher(candidates[:1], truth(rows))).n_good == 1


def test_units_of_the_input_do_not_matter() -> None:
    rows, mean, scale = table(6, 10), table(1, 10, seed=3)[0], torch.linspace(0.1, 30, 10).reshape(1, 1, 10)
    standardised = Truth(rows, mean, torch.full((6,), math.inf), scale)
    scores = score(ROWS, Matcher((rows - mean) / scale, standardised))
    assert scores.n_good == 6
    torch.testing.assert_close(scores.reconstruction, rows)


@pytest.mark.parametrize("useless", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_never_serves(useless: float) -> None:
    rows = table(3, 10)
    candidates = torch.cat([torch.full((3, 1, 1, 10), useless), rows])
    scores = score(ROWS, Matcher(candidates, truth(rows)))
    assert scores.candidate.tolist() == [3, 4, 5]
    assert wrong_columns(rows, candidates[:1], rows.std(0)).isinf().all()
    alone = score(ROWS, Matcher(candidates[:3], truth(rows)))
    assert (alone.n_good, alone.candidate.tolist()) == (0, [-1] * 3)


def test_confidence_is_judged_by_columns() -> None:
    rows = table(4, 10)
    candidates = torch.cat([1 - rows.round(), rows])
    curve = confidence_curve(ROWS, Matcher(candidates, truth(rows)), torch.arange(8.0))
    assert curve.hit.tolist() == [True] * 4 + [False] * 4
    assert curve.average_precision == 1


def test_a_victim_trained_here_on_a_table_is_scored_as_one() -> None:
    network = MLPSpec(hidden=())
    spec = VictimSpec(name="v", dataset="cancer", n=20, architecture=network, training=Regularised(steps=20))
    assert spec.tabular
    attack = registry.attacks().items["random"]
    run = Run(attack, attack.Params(), "", "default", spec, 0)
    reference = Reference.of(victim := victim_of(spec))
    assert (run.protocol, reference.tabular) == (ROWS.name, True)
    true_rows = torch.from_numpy(victim.split.inputs).flip(0)
    measured = LearnedMetrics(perceptual_status="AlexNet")
    columns = evaluate(PROTOCOLS[run.protocol], true_rows, None, reference, measured).columns()
    assert (columns["n_good"], columns["lpips_status"]) == (20, "rows of a table have no LPIPS")
    assert not AFFINE.tabular
    assert not Reference.of(victim_of(AFFINE)).tabular


def test_every_source_of_rows_is_known_as_one() -> None:
    assert set(TABULAR) == TABLES
