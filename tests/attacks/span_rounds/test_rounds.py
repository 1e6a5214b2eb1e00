"""Rounds of `kkt-span`: what stays, how fast it moves, what begins anew, and that a killed round goes on."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, Interrupted, Memory, attacked, context, victim_of

import attacks.context
from attacks.kkt_family.coefficients import paced_coefficients
from attacks.kkt_family.problem import Problem
from attacks.kkt_family.search import Start, search
from attacks.kkt_span import KKTSpan, KKTSpanParams
from attacks.span_rounds.rounds import ALIVE, KEPT_PACE, SETTLE_PACE, Rounds, _next
from attacks.span_rounds.selection import COPY, FARTHEST, outside, staying
from bench.run.disclosure import view_of
from victims.base import Victim
from victims.spec import DecayedDescent, MLPSpec, VictimSpec

N = 12
SHORT: dict[str, Any] = {"steps": 30, "rounds": 2, "round_steps": 20}


@pytest.fixture(scope="module")
def victim() -> Victim:
    spec = VictimSpec(
        name="digits-mlp-12-rounds",
        dataset="digits",
        n=N,
        architecture=MLPSpec(hidden=(60, 60), outputs=6, first_layer_scale=None),
        training=DecayedDescent(steps=600),
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
    assert outside(problem, inputs, lambda _: chosen).numpy() == pytest.approx(shares, abs=1e-9)


def test_what_stays_is_near_no_copy_and_at_most_one_an_image() -> None:
    eye = torch.eye(6)
    near = F.normalize(eye[0] + 0.5 * eye[1], dim=0)
    assert near @ eye[0] > COPY
    coordinates = torch.stack([near, *eye])
    left = torch.tensor([0.02, 0.01, 0.011, 0.012, 0.013, 0.014, 0.02 * FARTHEST])
    assert staying(left, coordinates, 6).tolist() == [1, 2, 3, 4, 5], "a copy of the second, and the last is too far"
    assert staying(left, coordinates, 3).tolist() == [1, 2, 3]
    assert staying(left.flip(0), coordinates.flip(0), 6).tolist() == [5, 4, 3, 2, 1]


def test_a_candidate_of_pace_p_takes_steps_of_p_times_the_learning_rate(problem: Problem) -> None:
    coordinates, chosen = drawn(problem, 3)
    pace = torch.tensor([1.0, 0.5, 0.01], dtype=torch.float64)
    params = KKTSpanParams(steps=1, dtype="float64", lr=0.01, lambda_lr=0.01)
    start = Start(coordinates, paced_coefficients(chosen, pace), pace)
    (found,) = search(problem, [start], params, lambda step, candidates: None)
    rate = 0.01 / 25  # Adam's first step is the learning rate, and a cycle begins at a 25th of the highest
    singular = problem.space.singular
    unit = (singular / singular.square().mean().sqrt()) ** params.coordinate_power
    steps = (found.candidates @ problem.space.basis) / unit - coordinates
    assert steps.abs().amax(1).numpy() == pytest.approx((rate * pace).numpy(), rel=1e-3)
    moved = start.coefficients.at(chosen) - chosen
    assert moved.abs().amax(1).detach().numpy() == pytest.approx((rate * pace).numpy(), rel=1e-3)


def test_a_round_keeps_what_stays_where_it_is_and_begins_others_anew(problem: Problem) -> None:
    coordinates, chosen = drawn(problem, 20)
    params = KKTSpanParams(dtype="float64", coordinate_power=0.0)
    start = Start(coordinates, paced_coefficients(chosen, torch.ones(20).double()))
    (found,) = search(problem, [start], params.model_copy(update={"steps": 1}), lambda step, candidates: None)
    generator = torch.Generator().manual_seed(1)
    settling = _next(problem, found, start.coefficients.at, params, generator, settle=True)
    sizes = found.sizes * found.candidates.norm(dim=1)
    alive = sizes > ALIVE * sizes.sort(descending=True).values[: problem.space.rank].median()
    assert torch.allclose(settling["coordinates"] @ problem.space.basis.T, found.candidates[alive])
    assert torch.allclose(settling["coefficients"], start.coefficients.at(chosen)[alive])
    assert settling["pace"][:, 0].numpy() == pytest.approx(SETTLE_PACE)

    again = _next(problem, found, start.coefficients.at, params, generator, settle=False)
    inputs = found.candidates @ problem.space.basis
    stay = staying(outside(problem, inputs, start.coefficients.at), inputs, problem.space.rank)
    assert 0 < len(stay) <= problem.space.rank
    assert torch.allclose(again["coordinates"][: len(stay)], inputs[stay])
    assert torch.allclose(again["coefficients"][: len(stay)], start.coefficients.at(chosen)[stay])
    assert again["pace"][: len(stay), 0].numpy() == pytest.approx(KEPT_PACE)
    assert again["pace"][len(stay) :, 0].eq(1).all()
    assert again["coordinates"][len(stay) :].abs().max() < 10 * params.init_scale
    missing = problem.space.rank - len(stay)
    assert len(again["pace"]) - len(stay) == round(max(0.6 * problem.space.rank, 2 * missing))


def test_the_searches_are_as_many_and_as_long_as_the_steps_say() -> None:
    params = KKTSpanParams(**SHORT)
    phases = params.after_search.phases(params)
    assert sum(phase.steps for phase in phases) == params.steps_of_a_restart
    assert [phase.sparsity for phase in phases] == [params.sparsity, 0, 0.02, 0, 0.02, 0]
    assert Rounds(0, 20, 0.02).more_steps == 0
    assert KKTSpanParams().steps_of_a_restart == KKTSpanParams().steps


def test_killed_anywhere_it_ends_as_it_would_have(victim: Victim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacks.context, "CHECKPOINT_SECONDS", 0.0)
    view, attack = view_of(victim, KKTSpan.needs, CPU), KKTSpan(KKTSpanParams(**SHORT))
    whole = attack.reconstruct(view, context())
    total = attack.params.steps_of_a_restart
    assert whole.grad_evals == total
    first = SHORT["steps"]
    for most in (first - 1, first, first + 1, first + 149, first + 155, first + 175, total - 2):
        memory = Memory(most)
        with pytest.raises(Interrupted):
            attack.reconstruct(view, replace(context(), checkpoints=memory))
        memory.most = 10**9
        resumed = attack.reconstruct(view, replace(context(), checkpoints=memory))
        assert torch.equal(resumed.candidates, whole.candidates), most
        assert torch.equal(resumed.confidence, whole.confidence)  # type: ignore[arg-type]
        assert resumed.grad_evals == total


def test_a_budget_ends_it_between_and_within_searches(victim: Victim) -> None:
    view = view_of(victim, KKTSpan.needs, CPU)
    spent = []
    for limit in (10, 30, 100, 190, 10**6):
        ctx = replace(context(), budget=attacks.context.Budget(steps=limit))
        found = KKTSpan(KKTSpanParams(**SHORT)).reconstruct(view, ctx)
        assert found.candidates.isfinite().all()
        spent.append(found.grad_evals)
    assert all(less < more for less, more in pairwise(spent))
    assert spent[:4] == [10, 30, 100, 190]


def test_the_candidates_that_keep_to_the_spans_come_first(victim: Victim) -> None:
    attack = KKTSpan(KKTSpanParams(**SHORT))
    found = attack.reconstruct(view_of(victim, attack.knowledge, CPU), context())
    assert found.confidence is not None
    assert found.confidence.min() >= 0
    assert found.confidence.max() <= 1
    assert len(found.confidence.unique()) > 1


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
