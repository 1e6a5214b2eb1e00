"""The chance of a candidate: its six factors, their products, and the regression on them."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from attacking import CLASSES, MARGIN, context, victim_of
from sklearn.preprocessing import PolynomialFeatures
from torch import Tensor

from attacks.kkt import KKT
from attacks.kkt_family.problem import Problem
from attacks.kkt_family.ranking import calibration
from attacks.kkt_family.ranking.calibration import FACTORS, FARTHEST, LIMIT, LOGITS, calibrated, factors, products
from attacks.kkt_family.ranking.evidence import SMALLEST, evenness
from attacks.kkt_general import KKTGeneral
from attacks.kkt_multiclass import KKTMulticlass
from attacks.optimisation.restarts import Restart
from bench.run.disclosure import view_of
from victims.equations.network import Network
from victims.equations.row_space import RowSpace
from victims.spec import VictimSpec

SHAPE = (1, 2, 2)
POWER = 0.5
LABELS = torch.tensor([1, 0, 1, 0])


def columns(m: int = 50) -> Tensor:
    """Six factors of m candidates, of different means and spreads."""
    drawn = torch.randn(m, len(FACTORS), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return drawn * torch.arange(1, 7) + torch.arange(6)


def problem_and_restarts() -> tuple[Problem, list[Restart]]:
    """A network of one output and two restarts of two candidates each."""
    generator = torch.Generator().manual_seed(1)
    network = Network(
        (torch.randn(6, 4, generator=generator), torch.randn(1, 6, generator=generator)),
        (None, None),
    )
    space = RowSpace(torch.eye(4), torch.tensor([4.0, 2.0, 1.0, 0.5]), gap=True)
    kept = [
        Restart(torch.randn(2, 4, generator=generator), torch.tensor([0.5, 2.0]), 0.1, torch.tensor([0.9, 0.2]))
        for _ in range(2)
    ]
    return Problem(network, space), kept


def test_products_are_those_of_standardised_factors() -> None:
    given = columns()
    standard = ((given - given.mean(0)) / given.std(0, unbiased=False)).clamp(-LIMIT, LIMIT)
    expected = torch.from_numpy(PolynomialFeatures(2).fit_transform(standard.numpy()))
    torch.testing.assert_close(products(given), expected)
    assert len(LOGITS) == expected.shape[1]


def test_units_of_a_factor_do_not_matter_and_one_that_is_the_same_for_all_tells_nothing() -> None:
    given = columns()
    torch.testing.assert_close(calibrated(given), calibrated(given * 7 + 3))
    given[:, 1] = -0.25
    assert calibrated(given).isfinite().all()
    assert products(given)[:, 2].eq(0).all()


def test_one_outlier_counts_no_more_than_the_limit() -> None:
    given = columns(1000)
    given[0, 0] = 1e6
    assert float(products(given)[0, 1]) == LIMIT


def test_the_chance_is_the_logistic_function_of_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "LOGITS", (math.log(3), *(0.0,) * 27))
    torch.testing.assert_close(calibrated(columns()), torch.full((50,), 0.75))


def test_what_speaks_for_a_candidate_on_the_twins_speaks_for_it() -> None:
    """Large, sharp, consistent and of the usual margin beats small, even, inconsistent and of another margin."""
    good = torch.tensor([1.0, 0.5, 1.0, -1.0, -1.0, -0.8])
    surer = calibrated(torch.cat([torch.stack([good, -good]), columns() * 1e-9]).double())
    assert surer[0] > 0.5 > surer[1]


def test_each_factor_is_what_its_name_says() -> None:
    problem, kept = problem_and_restarts()
    found = factors(problem, kept, LABELS, SHAPE, POWER)
    candidates, sizes = torch.cat([one.candidates for one in kept]), torch.cat([one.sizes for one in kept])
    scaled = candidates / (problem.space.singular / problem.space.singular.square().mean().sqrt()) ** POWER
    other = torch.tensor([2, 3, 0, 1])  # of the same class in the other restart
    agreed = F.cosine_similarity(scaled, scaled[other]).clamp(min=SMALLEST)
    shared = (F.normalize(candidates, dim=1) + F.normalize(candidates[other], dim=1)) / 2
    first, second = problem.network.weights
    outputs = ((candidates @ first.T).relu() @ second.T)[:, 0]
    margin = torch.where(LABELS == 1, outputs, -outputs)
    expected = [
        (sizes * scaled.norm(dim=1)).log(),
        agreed.log(),
        torch.tensor([0.9, 0.2, 0.9, 0.2]).log(),
        evenness(candidates.view(-1, *SHAPE)).log(),
        evenness(shared.view(-1, *SHAPE)).log(),
        (margin / margin[margin > 0].median() - 1).abs().clamp(max=FARTHEST),
    ]
    torch.testing.assert_close(found, torch.stack(expected, 1))


def test_the_factors_are_finite_where_no_candidate_is_classified_right() -> None:
    problem, kept = problem_and_restarts()
    outputs = problem.network.forward(torch.cat([one.candidates for one in kept]), torch.relu)[:, 0]
    assert factors(problem, kept, (outputs < 0).long(), SHAPE, POWER).isfinite().all()


@pytest.mark.parametrize(("kind", "spec"), [(KKT, MARGIN), (KKTMulticlass, CLASSES)], ids=["kkt", "kkt-multiclass"])
def test_an_attack_says_the_chance_of_its_candidates_and_finds_the_same_ones(
    kind: type[KKT] | type[KKTMulticlass], spec: VictimSpec
) -> None:
    victim = victim_of(spec)
    found = {}
    for ranking in ("agreement", "calibrated"):
        attack = kind(kind.Params(steps=20, restarts=2, candidates=6, ranking=ranking))
        found[ranking] = attack.reconstruct(view_of(victim, attack.knowledge, torch.device("cpu")), context())
    plain, sure = found["agreement"], found["calibrated"]
    assert torch.equal(plain.candidates, sure.candidates)
    assert sure.confidence is not None
    assert bool(((sure.confidence >= 0) & (sure.confidence <= 1)).all())
    assert len(sure.confidence.unique()) == 12


def test_only_attacks_with_margins_are_calibrated() -> None:
    with pytest.raises(ValueError, match="calibrated asks for margins"):
        KKTGeneral.Params(ranking="calibrated")
