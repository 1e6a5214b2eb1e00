"""`kernel-query` finds the images of small kernel machines exactly, counts its queries, and says what it lacks."""

from __future__ import annotations

import pytest
import torch
from attacking import CPU, DECAYED, Interrupted, Memory, attacked, context, victim_of
from pydantic import ValidationError
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from attacks.base import Knowledge
from attacks.context import Budget
from attacks.kernel_queries.descent import FARTHEST
from attacks.kernel_query import KernelQuery, KernelQueryParams
from bench.run.disclosure import Counted, answer_of, disclosed, view_from, view_of
from victims.base import Victim
from victims.defences.spec import parse
from victims.defences.stacking import defended
from victims.kernel.spec import Kernel, KernelFit, KernelSpec, Model
from victims.spec import VictimSpec
from victims.zoo.barzilai2025 import machine

EXACT = 1e-5
"""Largest error of a pixel; answers are those of coefficients in float32, and FORETOLD is 1e-8 of their squares."""


def attack(**params: object) -> KernelQuery:
    """The attack with parameters; ten images need fewer queries and iterations than its defaults."""
    return KernelQuery(KernelQueryParams.model_validate({"equations": 2.0, "iterations": 50} | params))


def victim(model: Model = "ridge", kernel: Kernel = "laplace", *defences: str) -> Victim:
    found: Victim = victim_of(defended(machine("digits", model, 10, kernel), [parse(text) for text in defences]))
    return found


def errors(candidates: Tensor, owner: Victim) -> tuple[Tensor, Tensor]:
    """The largest error of a pixel for each training image (n,), and the candidate that serves it, one to one."""
    truth = torch.from_numpy(owner.split.inputs).flatten(1)
    distance = torch.cdist(truth, candidates.flatten(1))
    served = torch.from_numpy(linear_sum_assignment(distance.numpy())[1])
    return (candidates.flatten(1)[served] - truth).abs().amax(1), served


@pytest.mark.parametrize(
    ("model", "kernel"), [("ridge", "gaussian"), ("svc", "laplace"), ("logistic", "gaussian"), ("density", "laplace")]
)
def test_every_machine_gives_all_its_images_away(model: Model, kernel: Kernel) -> None:
    owner = victim(model, kernel)
    found = attacked(attack(), owner)
    error, served = errors(found.candidates, owner)

    assert len(found.candidates) == 10
    assert error.max() < EXACT
    assert found.labels is not None
    assert torch.equal(found.labels[served], torch.from_numpy(owner.split.labels))


def test_without_a_range_of_pixels_no_candidate_runs_away() -> None:
    """A lower loss may lie where a query is not finite."""
    training, network = KernelFit(gamma=0.15), KernelSpec(model="ridge", kernel="gaussian", outputs=1)
    owner = victim_of(VictimSpec(name="digits-own", dataset="digits", n=6, architecture=network, training=training))
    found = attacked(KernelQuery(KernelQueryParams(rounds=3, steps=6, pixels=None)), owner)
    assert bool((found.candidates.abs() < FARTHEST).all())


def test_the_width_is_found_as_if_it_were_told() -> None:
    owner = victim()
    for width in ("found", "told"):
        found = attacked(attack(width=width), owner)
        assert errors(found.candidates, owner)[0].max() < EXACT
        assert float(found.flags[0].removeprefix("gamma ")) == pytest.approx(0.5, rel=1e-4)
    assert attack(width="told").knowledge - attack().knowledge == {Knowledge.KERNEL_WIDTH}


def test_queries_are_counted_and_no_more_are_asked_than_allowed() -> None:
    owner, needs = victim(), attack().knowledge
    counted = {}
    for queries in (200, 1000, None):
        answer = Counted(answer_of(owner, needs, CPU))
        view = view_from(disclosed(owner, needs), needs, CPU, None, answer)
        ctx = context()
        attack(queries=queries, rounds=4, steps=2).reconstruct(view, ctx)
        counted[queries] = answer.asked
        assert ctx.trace[-1]["queries"] == answer.asked
    # in all four rounds 12 candidates of 64 pixels and ten coefficients, 2 equations each, ten answers a query
    assert counted == {200: 200, 1000: 1000, None: 4 * 178}


def test_queries_draw_nearer_by_one_factor_a_round() -> None:
    asks = attack(rounds=5, spread=(0.8, 0.1))
    assert [asks._spread(round_) for round_ in range(1, 5)] == pytest.approx([0.8, 0.4, 0.2, 0.1])


def test_n_may_be_assumed() -> None:
    owner = victim()
    more = attack(images=12)
    assert Knowledge.N not in more.knowledge
    found = attacked(more, owner)
    assert len(found.candidates) == 12
    assert errors(found.candidates, owner)[0].max() < 0.05  # those in excess stay, beside others


def test_too_few_equations_are_told() -> None:
    found = attacked(attack(queries=200, images=40, rounds=2, steps=2), victim())
    assert "equations for 3,552 unknowns" in found.flags[1]
    with pytest.raises(ValidationError, match="greater than or equal to 200"):
        attack(queries=10)
    with pytest.raises(ValidationError, match=r"the range of a pixel is \(low, high\)"):
        attack(pixels=(1, 0))


@pytest.mark.parametrize(
    ("model", "answers", "flag"),
    [
        ("ridge", "labels", "answers are labels: no sums of kernels"),
        ("density", "labels", "answers are labels: no sums of kernels"),
        ("density", "probabilities", "answers are probabilities of densities: no sums of kernels"),
    ],
)
def test_what_is_no_sum_of_kernels_is_told(model: Model, answers: str, flag: str) -> None:
    owner = victim(model, "laplace", f"answers={answers}")
    found = attacked(attack(rounds=2, steps=3), owner)
    assert found.flags[-1] == flag
    assert errors(found.candidates, owner)[0].min() > 0.1


@pytest.mark.parametrize("defences", [("answers=probabilities",), ("round-outputs=4",), ("noise-outputs=0.0001",)])
def test_probabilities_and_what_is_hidden_a_little_give_images_away_too(defences: tuple[str, ...]) -> None:
    owner = victim("ridge", "laplace", *defences)
    error, _ = errors(attacked(attack(rounds=5), owner).candidates, owner)
    assert (error < 0.05).sum() >= 9


def test_a_killed_search_goes_on_to_the_same_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attacks.context.CHECKPOINT_SECONDS", 0.0)
    owner, chosen = victim(), attack(rounds=3, steps=4)
    whole = attacked(chosen, owner)
    memory = Memory(most=6)
    ctx = context()
    ctx.checkpoints = memory
    with pytest.raises(Interrupted):
        chosen.reconstruct(view_of(owner, chosen.knowledge, CPU), ctx)
    memory.most = 10**9
    again = context(seed=7)
    again.checkpoints = memory
    resumed = chosen.reconstruct(view_of(owner, chosen.knowledge, CPU), again)

    assert torch.equal(resumed.candidates, whole.candidates)
    assert again.trace == [] or again.trace[-1]["step"] == 12


def test_a_spent_budget_ends_it_with_what_it_has() -> None:
    ctx = context()
    ctx.budget = Budget(steps=2)
    found = attack().reconstruct(view_of(victim(), attack().knowledge, CPU), ctx)
    assert found.candidates.shape == (12, 1, 8, 8)
    assert ctx.stopped


def test_it_declines_what_is_no_kernel_machine() -> None:
    assert "no kernel machine" in str(attack().supports(DECAYED))
    assert attack().supports(machine("digits", "svc", 20)) is None
    assert isinstance(machine("digits", "svc", 20).architecture, KernelSpec)
