"""Rounds of `kkt-span`: what stays, how fast it moves, what begins anew, and that a killed round goes on."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, Left, Recorded, attacked, context, victim_of
from pydantic import ValidationError

import attacks.context
from attacks.kkt_family.coefficients import rescaled_coefficients
from attacks.kkt_family.problem import Problem
from attacks.kkt_family.ranking.confidence import agreement
from attacks.kkt_family.search import Start, StationaryPoint, coordinates_of, search
from attacks.kkt_span import KKTSpan, KKTSpanParams
from attacks.optimisation.restarts import Restart, Restarts
from attacks.span_rounds import rounds, selection
from attacks.span_rounds.rounds import ALIVE, KEPT_LR, SETTLE_LR, RoundSchedule, _next
from attacks.span_rounds.selection import COPY, FARTHEST, outside, staying
from bench.run.disclosure import view_of
from victims.base import Victim
from victims.spec import DecayedDescent, MLPSpec, VictimSpec

N = 12
SHORT: dict[str, Any] = {"steps": 30, "rounds": 2, "round_steps": 20}


@pytest.fixture
def settle(monkeypatch: pytest.MonkeyPatch) -> int:
    """A tenth of the steps in which candidates settle."""
    monkeypatch.setattr(rounds, "SETTLE_STEPS", 15)
    return 15


@pytest.fixture(scope="module")
def victim() -> Victim:
    spec = VictimSpec(
        name="digits-mlp-12-rounds",
        dataset="digits",
        n=N,
        architecture=MLPSpec(hidden=(60, 60), outputs=6, first_layer_scale=None),
        training=DecayedDescent(steps=1500),
    )
    victim: Victim = victim_of(spec)
    return victim


@pytest.fixture(scope="module")
def problem(victim: Victim) -> Problem:
    return Problem.of(view_of(victim, KKTSpan.needs, CPU), CPU, torch.float64)


def drawn(problem: Problem, m: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Coordinates (m, r) and coefficients (m, 6) at random."""
    generator = torch.Generator().manual_seed(seed)
    rank = problem.space.rank
    return tuple(torch.randn(m, size, generator=generator, dtype=torch.float64) for size in (rank, 6))  # type: ignore[return-value]


def test_how_far_a_candidate_leaves_the_spans_is_the_residual_of_two_least_squares(problem: Problem) -> None:
    inputs, chosen = drawn(problem, 5)
    (first, *rest), (bias, *_) = problem.connected.weights, problem.connected.biases
    before = (inputs @ first.T + (0 if bias is None else bias)).requires_grad_()
    active = before.relu()
    outputs = (active @ rest[0].T).relu() @ rest[1].T
    (errors,) = torch.autograd.grad((chosen * outputs).sum(), before)
    shares = np.zeros(5)
    spanning = problem.spans(1.0, 1.0)
    assert spanning.errors is not None
    assert spanning.activations is not None
    rows = spanning.activations.basis.numpy()
    for basis, vectors in ((problem.connected.weights[0].numpy(), errors), (rows, active.detach())):
        wanted = vectors.numpy().T
        fitted = basis @ np.linalg.lstsq(basis, wanted, rcond=None)[0]
        shares += ((wanted - fitted) ** 2).sum(0) / (wanted**2).sum(0)
    assert outside(problem, *problem.activations_and_errors(inputs, lambda _: chosen)).numpy() == pytest.approx(
        shares, abs=1e-9
    )


def test_what_stays_is_near_no_copy_and_at_most_one_an_image() -> None:
    eye = torch.eye(6)
    near = F.normalize(eye[0] + 0.5 * eye[1], dim=0)
    assert near @ eye[0] > COPY
    coordinates = torch.stack([near, *eye])
    left = torch.tensor([0.02, 0.01, 0.011, 0.012, 0.013, 0.014, 0.02 * FARTHEST])
    assert staying(left, coordinates, 6).tolist() == [1, 2, 3, 4, 5], "a copy of the second, and the last is too far"
    assert staying(left, coordinates, 3).tolist() == [1, 2, 3]
    assert staying(left.flip(0), coordinates.flip(0), 6).tolist() == [5, 4, 3, 2, 1]


def test_a_candidate_takes_steps_of_its_factor_times_the_learning_rate(problem: Problem) -> None:
    coordinates, chosen = drawn(problem, 3)
    factors = torch.tensor([1.0, 0.5, 0.01], dtype=torch.float64)
    params = KKTSpanParams(steps=1, dtype="float64", lr=0.01, lambda_lr=0.01)
    start = Start(coordinates, rescaled_coefficients(chosen, factors), factors)
    (found,) = search(problem, [start], params, lambda step, candidates: None)
    rate = 0.01 / 25  # Adam's first step is the learning rate, and a cycle begins at a 25th of the highest
    singular = problem.space.singular
    unit = (singular / singular.square().mean().sqrt()) ** params.coordinate_power
    steps = (found.candidates @ problem.space.basis) / unit - coordinates
    assert steps.abs().amax(1).numpy() == pytest.approx((rate * factors).numpy(), rel=1e-3)
    moved = start.coefficients.at(chosen) - chosen
    assert moved.abs().amax(1).detach().numpy() == pytest.approx((rate * factors).numpy(), rel=1e-3)


def test_a_factor_of_all_is_a_learning_rate(problem: Problem) -> None:
    """With the atomic norm at a price, whose gradient must be that of the coordinates and not of what Adam moves."""
    coordinates, chosen = drawn(problem, 5)
    params = KKTSpanParams(steps=10, dtype="float64", lr=0.02, lambda_lr=0.02, sparsity=5.0)

    def ends(factor: float) -> StationaryPoint:
        factors = torch.full((5,), factor, dtype=torch.float64)
        rates = {"lr": params.lr / factor, "lambda_lr": params.lambda_lr / factor}
        start = Start(coordinates, rescaled_coefficients(chosen, factors), factors)
        return search(problem, [start], params.model_copy(update=rates), lambda step, candidates: None)[0]

    one, other = ends(1.0), ends(20.0)
    assert torch.allclose(one.candidates, other.candidates)
    assert torch.allclose(one.sizes, other.sizes)
    assert not torch.allclose(one.candidates, coordinates @ problem.space.basis.T, rtol=1e-2)


def test_a_round_keeps_what_stays_where_it_is_and_begins_others_anew(problem: Problem) -> None:
    coordinates, chosen = drawn(problem, 20)
    params = KKTSpanParams(dtype="float64", coordinate_power=0.0)
    start = Start(coordinates, rescaled_coefficients(chosen, torch.ones(20).double()))
    (found,) = search(problem, [start], params.model_copy(update={"steps": 1}), lambda step, candidates: None)
    generator = torch.Generator().manual_seed(1)
    settling = _next(problem, found, start.coefficients.at, params, generator, settle=True)
    sizes = found.sizes * found.candidates.norm(dim=1)
    alive = sizes > ALIVE * sizes.sort(descending=True).values[: problem.space.rank].median()
    assert torch.allclose(settling["coordinates"] @ problem.space.basis.T, found.candidates[alive])
    assert torch.allclose(settling["coefficients"], start.coefficients.at(chosen)[alive])
    assert settling["lr"].numpy() == pytest.approx(SETTLE_LR)

    again = _next(problem, found, start.coefficients.at, params, generator, settle=False)
    inputs = found.candidates @ problem.space.basis
    stay = staying(
        outside(problem, *problem.activations_and_errors(inputs, start.coefficients.at)), inputs, problem.space.rank
    )
    assert 0 < len(stay) <= problem.space.rank
    assert torch.allclose(again["coordinates"][: len(stay)], inputs[stay])
    assert torch.allclose(again["coefficients"][: len(stay)], start.coefficients.at(chosen)[stay])
    assert again["lr"][: len(stay)].numpy() == pytest.approx(KEPT_LR)
    assert again["lr"][len(stay) :].eq(1).all()
    unit = float(problem.network.weights[0].square().sum()) / len(again["lr"])
    assert torch.allclose(again["coefficient_lr"], unit * again["lr"])
    assert float(again["coordinates"][len(stay) :].std()) == pytest.approx(params.init_scale, rel=0.2)
    assert float(again["coefficients"][len(stay) :].std()) == pytest.approx(0.1 * unit, rel=0.3)
    missing = problem.space.rank - len(stay)
    assert len(again["lr"]) - len(stay) == round(max(0.6 * problem.space.rank, 2 * missing))


def test_candidates_far_smaller_than_an_image_of_middle_size_do_not_settle(problem: Problem) -> None:
    """Of as many of the largest as there are images; here most candidates are as small as a twentieth."""
    coordinates, chosen = drawn(problem, 4 * N)
    coordinates, chosen = F.normalize(coordinates, dim=1), F.normalize(chosen, dim=1)
    chosen[N:] *= 0.05
    found = StationaryPoint(coordinates @ problem.space.basis.T, chosen.norm(dim=1))
    params = KKTSpanParams(dtype="float64", coordinate_power=0.0)
    settling = _next(problem, found, lambda _: chosen, params, torch.Generator(), settle=True)
    torch.testing.assert_close(settling["coordinates"], coordinates[:N])


def test_the_searches_are_as_many_and_as_long_as_the_steps_say() -> None:
    params = KKTSpanParams(**SHORT)
    searches = params.after_search.searches(params)
    assert [one.steps for one in searches] == [30, 150, 20, 150, 20, 150]
    assert [one.sparsity for one in searches] == [params.sparsity, 0, 0.02, 0, 0.02, 0]
    graduated = params.model_copy(update={"first_alpha": 1.0})
    assert [one.first_alpha for one in params.after_search.searches(graduated)] == [1.0] + [None] * 5
    free = params.model_copy(update={"round_offset_price": 1e-6})
    assert [one.offset_price for one in free.after_search.searches(free)] == [0.0] + [1e-6] * 5
    assert params.steps_of_a_restart == 520
    assert RoundSchedule(0, 20, 0.02, 0.0).searches(params) == [params]
    assert KKTSpanParams().steps_of_a_restart == KKTSpanParams().steps


def test_restarts_of_unlike_numbers_of_candidates_are_ranked_by_agreement_alone() -> None:
    with pytest.raises(ValidationError, match="ranked by agreement: leave ranking"):
        KKTSpanParams(rounds=1, restarts=2, ranking="evidence")
    assert KKTSpanParams(rounds=1, restarts=2).restarts == 2
    assert KKTSpanParams(rounds=1, ranking="evidence").rounds == 1


@pytest.mark.parametrize("offset_price", [0.0, 1e-6])
def test_killed_anywhere_it_ends_as_it_would_have(
    victim: Victim, monkeypatch: pytest.MonkeyPatch, settle: int, offset_price: float
) -> None:
    monkeypatch.setattr(attacks.context, "CHECKPOINT_SECONDS", 0.0)
    view, attack = view_of(victim, KKTSpan.needs, CPU), KKTSpan(KKTSpanParams(**SHORT, round_offset_price=offset_price))
    whole = attack.reconstruct(view, context())
    total = attack.params.steps_of_a_restart
    assert whole.grad_evals == total
    first, again = SHORT["steps"], SHORT["steps"] + settle + SHORT["round_steps"]
    recorded = Recorded((first - 1, first, first + 1, first + settle - 1, first + settle + 5, again + 5, total - 2))
    attack.reconstruct(view, replace(context(), checkpoints=recorded))
    for most, checkpoint in recorded.kept.items():
        resumed = attack.reconstruct(view, replace(context(), checkpoints=Left(checkpoint)))
        assert torch.equal(resumed.candidates, whole.candidates), most
        assert torch.equal(resumed.confidence, whole.confidence)  # type: ignore[arg-type]
        assert resumed.grad_evals == total
    assert len(recorded.kept) == 7


def test_several_restarts_are_pooled_and_go_on_after_a_kill(victim: Victim, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in the second, when the first has ended with another number of candidates."""
    monkeypatch.setattr(attacks.context, "CHECKPOINT_SECONDS", 0.0)
    view, ended = view_of(victim, KKTSpan.needs, CPU), list[int]()

    def watched(self: Restarts, found: list[Restart]) -> None:
        ended.extend(len(one.sizes) for one in found)
        end(self, found)

    end = Restarts.end
    monkeypatch.setattr(Restarts, "end", watched)
    attack = KKTSpan(KKTSpanParams(**SHORT, restarts=3))
    whole, counts = attack.reconstruct(view, context()), ended.copy()
    assert len(whole.candidates) == sum(counts)
    assert len(set(counts)) > 1
    steps = attack.params.steps_of_a_restart
    assert whole.grad_evals == 3 * steps
    recorded = Recorded((2 * steps - 1, 2 * steps + 40))
    attack.reconstruct(view, replace(context(), checkpoints=recorded))
    assert len(recorded.kept) == 2
    for checkpoint in recorded.kept.values():
        resumed = attack.reconstruct(view, replace(context(), checkpoints=Left(checkpoint)))
        assert torch.equal(resumed.candidates, whole.candidates)
        assert torch.equal(resumed.confidence, whole.confidence)  # type: ignore[arg-type]
    alone = KKTSpan(KKTSpanParams(**SHORT)).reconstruct(view, context())
    assert torch.equal(whole.candidates[: counts[0]], alone.candidates)
    coordinates = coordinates_of(
        whole.candidates.flatten(1), Problem.of(view, CPU, torch.float32).space, attack.params.coordinate_power
    )
    agreed = agreement(coordinates, None, counts)[: counts[0]]
    torch.testing.assert_close(whole.confidence[: counts[0]], alone.confidence * agreed)  # type: ignore[index, operator]


def test_a_budget_ends_it_between_and_within_searches(victim: Victim, settle: int) -> None:
    view = view_of(victim, KKTSpan.needs, CPU)
    spent = []
    for limit in (10, 30, 40, 50, 10**6):
        ctx = replace(context(), budget=attacks.context.Budget(steps=limit))
        found = KKTSpan(KKTSpanParams(**SHORT)).reconstruct(view, ctx)
        assert found.candidates.isfinite().all()
        spent.append(found.grad_evals)
    assert all(less < more for less, more in pairwise(spent))
    assert spent[:4] == [10, 30, 40, 50]


def test_a_restart_that_ends_with_the_budget_counts(victim: Victim, settle: int) -> None:
    view, attack = view_of(victim, KKTSpan.needs, CPU), KKTSpan(KKTSpanParams(**SHORT | {"rounds": 1}, restarts=2))
    budget = attacks.context.Budget(steps=2 * attack.params.steps_of_a_restart)
    whole = attack.reconstruct(view, context())
    found = attack.reconstruct(view, replace(context(), budget=budget))
    assert torch.equal(found.candidates, whole.candidates)


def test_the_confidence_is_how_far_a_candidate_keeps_to_the_spans(
    victim: Victim, settle: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watched(*given: Any) -> torch.Tensor:
        seen.append(outside(*given))
        return seen[-1]

    monkeypatch.setattr(selection, "outside", watched)
    found = attacked(KKTSpan(KKTSpanParams(**SHORT)), victim)
    assert found.confidence is not None
    torch.testing.assert_close(found.confidence, 1 - seen[-1].float() / 2)
    assert len(found.confidence) == len(found.candidates)
    ranked = attacked(KKTSpan(KKTSpanParams(**SHORT, ranking="evidence")), victim)
    assert torch.equal(ranked.candidates, found.candidates)
    assert not torch.equal(ranked.confidence, found.confidence)  # type: ignore[arg-type]


def test_where_the_weights_show_no_span_there_are_no_rounds() -> None:
    spec = VictimSpec(
        name="digits-mlp-30-rounds-affine",
        dataset="digits",
        n=30,
        architecture=MLPSpec(hidden=(), outputs=6, first_layer_scale=None),
        training=DecayedDescent(steps=20),
    )
    affine = victim_of(spec)
    plain = attacked(KKTSpan(KKTSpanParams(steps=10)), affine)
    found = attacked(KKTSpan(KKTSpanParams(steps=10, rounds=2)), affine)
    assert torch.equal(found.candidates, plain.candidates)
    assert found.resolved["rounds"] == 0
    assert found.flags[-1] == "the weights show no span: searched without rounds"
