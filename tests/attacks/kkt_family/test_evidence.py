"""What speaks for a candidate: its own equation, the spread of its gradients, and that it is no copy."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, MARGIN, Interrupted, Memory, context, victim_of
from torch import Tensor

import attacks.context
from attacks.kkt import KKT
from attacks.kkt_family.problem import Problem
from attacks.kkt_family.ranking.evidence import EXPONENTS, consensus, consistency, copies_last, evenness, evidence
from attacks.kkt_general import KKTGeneral
from attacks.kkt_span import KKTSpan
from bench.run.disclosure import view_of
from victims.equations.network import Network
from victims.equations.row_space import RowSpace

SINGULAR = torch.tensor([4.0, 1.0, 0.25])
POWER = 0.5
IMAGES = torch.eye(3)[:2]
COEFFICIENTS = torch.tensor([[1.0, 2.0], [3.0, 0.5]])


def planted() -> Problem:
    """A network of three layers at whose stationary point two orthogonal images fire five neurons each."""
    generator = torch.Generator().manual_seed(0)
    second, third = torch.rand(4, 10, generator=generator), torch.rand(2, 4, generator=generator)
    fires = torch.arange(2).repeat_interleave(5)
    errors = (COEFFICIENTS @ third @ second) * (fires == torch.arange(2)[:, None])
    network = Network((errors.T @ IMAGES, second, third), (None, None, None))
    return Problem(network, RowSpace(torch.eye(3), SINGULAR, gap=True))


def test_the_images_of_a_stationary_point_follow_from_the_weights() -> None:
    found = consistency(planted(), IMAGES, lambda outputs: COEFFICIENTS, POWER)
    torch.testing.assert_close(found, torch.ones(2))


def test_what_fires_alike_comes_back_as_its_mean() -> None:
    """Two halves of the second image, each with a part of its own that the other takes away again."""
    aside = torch.tensor([0.0, 0.0, 0.6])
    candidates = torch.stack([IMAGES[0], IMAGES[1] + aside, IMAGES[1] - aside])
    coefficients = torch.stack([COEFFICIENTS[0], COEFFICIENTS[1] / 2, COEFFICIENTS[1] / 2])
    found = consistency(planted(), candidates, lambda outputs: coefficients, POWER)
    fine = 0.6 / 0.25**POWER  # in the coordinates of the search
    torch.testing.assert_close(
        found, torch.tensor([1.0, 1.0, 1.0]) / torch.tensor([0, fine, fine]).square().add(1).sqrt()
    )


def test_a_candidate_that_fires_nothing_is_not_consistent() -> None:
    found = consistency(planted(), torch.stack([IMAGES[0], -IMAGES[1]]), lambda outputs: COEFFICIENTS, POWER)
    assert found[0] == pytest.approx(1, abs=1e-4)
    assert found[1] == pytest.approx(0, abs=2e-3)


@pytest.mark.parametrize("seed", range(4))
def test_noise_is_even(seed: int) -> None:
    """The mean |g| of a Gaussian is sqrt(2 / pi) of its deviation; 8,064 gradients have it to within 2%."""
    noise = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(seed))
    assert float(evenness(noise)) == pytest.approx(math.sqrt(2 / math.pi), rel=0.02)


def test_edges_are_not_even_whatever_the_contrast() -> None:
    """Four of the 24 gradients of a step are not zero."""
    edge = torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(1, 1, 4, 4)
    images = torch.cat([edge, 3 * edge - 1, edge.mT, torch.ones(1, 1, 4, 4)])
    torch.testing.assert_close(evenness(images), torch.tensor([math.sqrt(4 / 24)] * 3 + [1.0]))
    assert evenness(torch.rand(2, 1, 1, 9)).tolist() == [1, 1]  # rows of a table


def test_a_sum_of_images_is_more_even_than_each() -> None:
    edge = torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(1, 1, 4, 4)
    assert float(evenness(edge + edge.mT)) > float(evenness(edge))


def test_a_consensus_has_the_nearest_of_each_restart_and_class() -> None:
    """At 0 and 90 degrees in the first restart, at 20 and 80 in the second, the last of another class."""
    angles = torch.tensor([0.0, 90, 20, 80]).deg2rad()
    candidates = torch.stack([angles.cos(), angles.sin()], 1)
    middle = torch.tensor([10.0, 85, 10, 85]).deg2rad()
    found = consensus(3 * candidates, None, 2)
    torch.testing.assert_close(F.normalize(found, dim=1), torch.stack([middle.cos(), middle.sin()], 1))
    middle = torch.tensor([10.0, 55, 10, 80]).deg2rad()
    labels = torch.tensor([0, 0, 0, 1])
    found = consensus(candidates, labels, 2)[:3]
    torch.testing.assert_close(F.normalize(found, dim=1), torch.stack([middle.cos(), middle.sin()], 1)[:3])
    torch.testing.assert_close(consensus(candidates, None, 1), candidates)


def test_a_consensus_is_of_one_class_however_unlike_its_candidates_are() -> None:
    """In the other restart the only one of the class points the other way; one of another class is less unlike."""
    candidates = torch.tensor([[2.0, 0.0], [-3.0, 0.0], [0.0, 1.0]])[[0, 2, 1, 2]]
    found = consensus(candidates, torch.tensor([0, 1, 0, 1]), 2)
    assert found.tolist() == [[0, 0], [0, 1], [0, 0], [0, 1]]


def test_evidence_is_the_product_of_powers() -> None:
    images = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    sure, follows = torch.rand(2, 6, generator=torch.Generator().manual_seed(2)) + 0.1
    agreed = consensus(images.flatten(1), None, 2).view_as(images)
    factors = (sure, follows, evenness(images), evenness(agreed))
    expected = sum(exponent * factor.log() for exponent, factor in zip(EXPONENTS, factors, strict=True))
    torch.testing.assert_close(evidence(sure, follows, images, None, 2).log(), expected)


def order(confidence: Tensor) -> list[int]:
    return confidence.argsort(descending=True).tolist()


def test_copies_come_last_and_a_copy_has_none() -> None:
    """At 40 degrees from one another: the second is a copy of the first, the third of the second alone."""
    angles = torch.tensor([0.0, 40, 80, 180]).deg2rad()
    candidates = torch.stack([angles.cos(), angles.sin()], 1)
    sure = torch.tensor([4.0, 3.0, 2.0, 1.0])
    assert order(copies_last(sure, candidates, None)) == [0, 2, 3, 1]
    assert order(copies_last(sure, candidates, torch.tensor([0, 1, 0, 0]))) == [0, 1, 2, 3]
    assert order(copies_last(sure, candidates, torch.tensor([0, 1, 1, 0]))) == [0, 1, 3, 2]


@pytest.mark.parametrize("attack", [KKT, KKTGeneral, KKTSpan])
def test_another_ranking_is_of_the_same_candidates(attack: type[KKT]) -> None:
    victim = victim_of(MARGIN)
    found = {}
    for ranking in ("agreement", "evidence", "distinct"):
        ranked = attack(attack.Params(steps=40, restarts=2, candidates=6, ranking=ranking))
        found[ranking] = ranked.reconstruct(view_of(victim, ranked.knowledge, CPU), context())
    first, second, third = found.values()
    assert torch.equal(first.candidates, second.candidates)
    assert torch.equal(first.candidates, third.candidates)
    assert order(first.confidence) != order(second.confidence)
    kept = third.confidence > 0
    assert torch.equal(second.confidence[kept], third.confidence[kept])


@pytest.mark.parametrize("ranking", ["evidence", "distinct"])
def test_tied_coefficients_are_ranked_too(ranking: str) -> None:
    """Their slopes are of the loss, and the evidence is reckoned where torch records no gradients."""
    params = KKTGeneral.variants["tied"] | {"steps": 20, "restarts": 1, "candidates": 6, "ranking": ranking}
    attack = KKTGeneral(KKTGeneral.Params.model_validate(params))
    found = attack.reconstruct(view_of(victim_of(MARGIN), attack.knowledge, CPU), context())
    assert found.confidence is not None and bool((found.confidence > 0).any())
    assert not found.confidence.requires_grad


def test_the_published_loop_is_ranked_too() -> None:
    attack = KKT(KKT.Params(method="published", steps=20, restarts=1, candidates=6, ranking="evidence"))
    found = attack.reconstruct(view_of(victim_of(MARGIN), attack.knowledge, CPU), context())
    assert bool((found.confidence > 0).all())


def test_a_kill_in_the_middle_costs_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in the second of three restarts, and the first is not searched again."""
    monkeypatch.setattr(attacks.context, "CHECKPOINT_SECONDS", 0.0)
    attack = KKT(KKT.Params(steps=40, restarts=3, candidates=6, restarts_per_batch=1, ranking="evidence"))
    view, kept = view_of(victim_of(MARGIN), attack.knowledge, CPU), Memory(most=60)
    expected = attack.reconstruct(view, context())
    with pytest.raises(Interrupted):
        attack.reconstruct(view, replace(context(), checkpoints=kept))
    kept.most = 10**9
    found = attack.reconstruct(view, replace(context(), checkpoints=kept))
    assert torch.equal(found.confidence, expected.confidence)


def test_parameters_without_a_ranking_are_what_they_were() -> None:
    """Their hash is in the name of every stored run."""
    assert "ranking" not in json.loads(KKT.Params().model_dump_json())
    assert KKT.Params.model_validate(KKT.Params(ranking="evidence").model_dump()).ranking == "evidence"
