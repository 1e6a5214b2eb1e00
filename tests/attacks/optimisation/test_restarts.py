"""Restarts of which some diverge: those beside them and after them are kept."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from attacking import CPU, MARGIN, Interrupted, Memory, attacked, context, victim_of

import attacks.context
from attacks.base import AttackContext, DivergedError
from attacks.context import Budget
from attacks.kkt import KKT
from attacks.kkt_family.attack import CANDIDATES_PER_BATCH, MarginAttack
from attacks.optimisation.restarts import Restart, Restarts
from bench.run.disclosure import view_of


@pytest.fixture
def one_of_two_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coefficients of every second restart begin where no gradient is a number."""
    drawn, begun = MarginAttack.coefficients, []

    def coefficients(*args: object) -> object:
        begun.append(drawn(*args))  # type: ignore[arg-type]
        if len(begun) % 2:
            with torch.no_grad():
                begun[-1].variables[0].fill_(math.inf)
        return begun[-1]

    monkeypatch.setattr(MarginAttack, "coefficients", coefficients)


@pytest.mark.parametrize("batch", [1, 2, 4])
@pytest.mark.usefixtures("one_of_two_diverges")
def test_a_restart_that_diverges_is_left_out_and_the_others_end_as_they_would(batch: int) -> None:
    """Of four restarts every second one is lost, in batches of one, of two, and of all four."""
    victim, attack = victim_of(MARGIN), KKT(KKT.Params(steps=40, restarts=4, candidates=6, restarts_per_batch=batch))
    ctx = context()
    found = attack.reconstruct(view_of(victim, attack.knowledge, CPU), ctx)
    assert len(found.candidates) == len(found.labels) == len(found.confidence) == 12
    assert bool(found.candidates.isfinite().all())
    assert bool(found.confidence.isfinite().all())
    assert math.isfinite(found.loss)
    assert found.flags == ("2 of 4 restarts diverged and were left out",)
    assert all(math.isfinite(row["residual"]) for row in ctx.trace)
    assert found.grad_evals == {1: 2 * 20 + 2 * 40, 2: 160, 4: 160}[batch]  # batches of one that diverge end early


@pytest.mark.usefixtures("one_of_two_diverges")
def test_a_kill_where_a_restart_diverges_costs_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first restart is found to have diverged at its step 20: a checkpoint after that would go on with it."""
    monkeypatch.setattr(attacks.context, "CHECKPOINT_SECONDS", 0.0)
    attack, kept = KKT(KKT.Params(steps=40, restarts=2, candidates=6, restarts_per_batch=1)), Memory(most=20)
    view = view_of(victim_of(MARGIN), attack.knowledge, CPU)
    with pytest.raises(Interrupted):
        attack.reconstruct(view, replace(context(), checkpoints=kept))
    kept.most = 10**9
    assert attack.reconstruct(view, replace(context(), checkpoints=kept)).grad_evals == 20 + 40


def test_a_batch_goes_on_with_as_many_restarts_as_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """On another device it may be resumed where more, or fewer, would be one batch."""
    monkeypatch.setattr(attacks.context, "CHECKPOINT_SECONDS", 0.0)
    attack, kept = KKT(KKT.Params(steps=40, restarts=3, candidates=6)), Memory(most=7)
    view = view_of(victim_of(MARGIN), attack.knowledge, CPU)
    monkeypatch.setitem(CANDIDATES_PER_BATCH, "cpu", 12)
    expected = attack.reconstruct(view, context())
    with pytest.raises(Interrupted):
        attack.reconstruct(view, replace(context(), checkpoints=kept))
    kept.most = 10**9
    monkeypatch.setitem(CANDIDATES_PER_BATCH, "cpu", 6)
    found = attack.reconstruct(view, replace(context(), checkpoints=kept))
    assert torch.equal(found.candidates, expected.candidates)
    assert found.grad_evals == 120


def test_where_all_diverge_the_attack_has() -> None:
    attack = KKT(KKT.Params(steps=40, restarts=3, candidates=6, lr=1e30, lambda_lr=1e30))
    with pytest.raises(DivergedError, match="not finite at the end of any of 3 restarts"):
        attacked(attack, victim_of(MARGIN))


def test_a_budget_prefers_what_is_halfway_to_what_has_diverged() -> None:
    ctx = AttackContext(CPU, torch.Generator(), lambda step, steps, **figures: None, Budget(steps=15))
    restarts = Restarts(ctx, 2, 10, torch.zeros(1))
    restarts.next(1)
    assert not restarts.expired(9)
    restarts.end([Restart(torch.full((3, 4), math.nan), torch.ones(3), math.nan)])
    restarts.next(1)
    assert restarts.expired(5)
    halfway = Restart(torch.zeros(3, 4), torch.ones(3), 0.5)
    restarts.end([halfway])
    assert restarts.kept() == ([halfway], ("1 of 2 restarts diverged and were left out",))


@pytest.mark.parametrize("ranked", [True, False])
def test_restarts_that_have_ended_come_back_from_a_checkpoint(ranked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with as many candidates as it had, and a restart that diverged too."""
    monkeypatch.setattr(attacks.context, "CHECKPOINT_SECONDS", 0.0)
    generator, kept = torch.Generator().manual_seed(3), Memory()
    ends = []
    for m, loss in ((5, 0.5), (3, 0.25), (2, math.inf)):
        candidates, sizes, follows = (torch.rand(m, *shape, generator=generator) for shape in ((7,), (), ()))
        ends.append(Restart(candidates, sizes, loss, follows if ranked else None))
    restarts = Restarts(replace(context(), checkpoints=kept), 4, 40, ends[0].candidates)
    for end in ends:
        restarts.next(1)
        restarts.end([end])
    again = Restarts(replace(context(), checkpoints=kept), 4, 40, ends[0].candidates)
    assert again.spent == restarts.spent == 120
    for one, end in zip(again.ended, ends, strict=True):
        assert one.loss == end.loss
        assert torch.equal(one.candidates, end.candidates)
        assert torch.equal(one.sizes, end.sizes)
        assert (one.consistency is None) == (not ranked)
        assert one.consistency is None or torch.equal(one.consistency, end.consistency)
