"""What an attack spends, and how it goes on where it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attacking import Interrupted, Memory

import attacks.context
from attacks.base import Architecture, Knowledge, Reconstruction, VictimView
from attacks.context import UNLIMITED, AttackContext, Budget
from attacks.deco import Deco
from attacks.inversion import Inversion
from attacks.kkt import KKT
from attacks.kkt_delta import KKTDelta
from attacks.kkt_general import KKTGeneral
from attacks.kkt_span import KKTSpan
from victims.equations.adjoint import StationarityResidual
from victims.equations.architectures import build
from victims.ordinary.seeds import BATCH
from victims.spec import MLPSpec

SHAPE = (1, 6, 6)
SPEC = MLPSpec(hidden=(10,))


@pytest.fixture
def view() -> VictimView:
    model = build(SPEC, SHAPE, torch.Generator().manual_seed(0), torch.float32)
    facts: dict[Knowledge, Any] = {
        Knowledge.ARCHITECTURE: Architecture(SPEC, SHAPE, lambda: build(SPEC, SHAPE, torch.Generator(), torch.float32)),
        Knowledge.WEIGHTS: model.state_dict(),
        Knowledge.CLASS_BALANCE: (0.5, 0.5),
        Knowledge.N: 4,
        Knowledge.WEIGHT_DECAY: 0.1,
    }
    return VictimView(facts, frozenset(facts))


def context(budget: Budget = UNLIMITED, kept: Memory | None = None) -> AttackContext:
    def progress(step: int, steps: int, **figures: float) -> None:
        """Tell nobody."""

    return AttackContext(torch.device("cpu"), torch.Generator().manual_seed(3), progress, budget, kept)


ATTACKS = {
    "kkt": KKT(KKT.Params(steps=30, restarts=3, candidates=6, restarts_per_batch=1)),
    "kkt, two restarts at once": KKT(KKT.Params(steps=30, restarts=5, candidates=6, restarts_per_batch=2)),
    "published": KKT(KKT.Params(method="published", steps=30, restarts=2, candidates=6, lr=0.01)),
    "deco": Deco(Deco.Params(steps=30)),
    "inversion": Inversion(Inversion.Params(steps=30, candidates=4)),
}
RESUMED = {
    "kkt": ATTACKS["kkt"],
    "kkt, two restarts at once": ATTACKS["kkt, two restarts at once"],
    "published": ATTACKS["published"],
    "kkt-general": KKTGeneral(KKTGeneral.Params(steps=30, restarts=2, candidates=6, restarts_per_batch=1)),
    "kkt-span": KKTSpan(KKTSpan.Params(steps=50, candidates=6)),
}
"""Attacks that keep checkpoints."""


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_budget_of_steps_ends_an_attack_at_its_best_so_far(view: VictimView, attack: Any) -> None:
    ctx = context(Budget(steps=7))
    found: Reconstruction = attack.reconstruct(view, ctx)
    assert ctx.stopped
    assert len(found.candidates) > 0
    assert found.candidates.isfinite().all()
    assert all(row["step"] <= 7 for row in ctx.trace)

    free = context(Budget(steps=1000))
    attack.reconstruct(view, free)
    assert not free.stopped


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_budget_of_no_time_still_returns_something(view: VictimView, attack: Any) -> None:
    ctx = context(Budget(seconds=1e-9))
    found: Reconstruction = attack.reconstruct(view, ctx)
    assert ctx.stopped
    assert found.candidates.shape[1:] == SHAPE


def test_how_many_restarts_are_one_batch_changes_nothing_but_rounding(view: VictimView) -> None:
    pairs = ATTACKS["kkt, two restarts at once"].reconstruct(view, context())
    alone = KKT(KKT.Params(steps=30, restarts=5, candidates=6, restarts_per_batch=1)).reconstruct(view, context())
    torch.testing.assert_close(pairs.candidates, alone.candidates, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(pairs.coefficients, alone.coefficients, rtol=1e-3, atol=1e-5)
    assert pairs.loss == pytest.approx(alone.loss, rel=1e-3)
    assert pairs.grad_evals == alone.grad_evals == 150


def test_what_a_restart_has_halfway_is_left_out(view: VictimView) -> None:
    whole = ATTACKS["kkt"].reconstruct(view, context())
    cut = ATTACKS["kkt"].reconstruct(view, context(Budget(steps=45)))
    assert len(whole.candidates) == 18
    assert torch.equal(cut.candidates, whole.candidates[:6])
    assert torch.equal(cut.labels, whole.labels[:6])
    assert (whole.grad_evals, cut.grad_evals) == (90, 45)


@pytest.mark.parametrize("kills", [[1], [13], [29], [30], [31], [13, 13, 13]])
@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_attack_ends_as_an_undisturbed_one(
    view: VictimView, monkeypatch: pytest.MonkeyPatch, name: str, kills: list[int]
) -> None:
    """It is killed at a step of a restart, at the last one, between two restarts and early in the next."""
    monkeypatch.setattr(attacks.context, "CHECKPOINT_SECONDS", 0.0)
    undisturbed = context()
    expected = RESUMED[name].reconstruct(view, undisturbed)
    kept = Memory()
    for more in kills:
        kept.most = kept.kept + more
        with pytest.raises(Interrupted):
            RESUMED[name].reconstruct(view, context(kept=kept))
    kept.most = 10**9
    assert kept.last is not None
    kept.last.seconds += 1000
    last = context(kept=kept)
    found = RESUMED[name].reconstruct(view, last)

    assert torch.equal(found.candidates, expected.candidates)
    assert torch.equal(found.coefficients, expected.coefficients)
    assert torch.equal(found.confidence, expected.confidence)
    assert (found.loss, found.grad_evals) == (expected.loss, expected.grad_evals)
    assert [row["step"] for row in last.trace] == [row["step"] for row in undisturbed.trace]
    assert last.seconds > 1000


def test_a_search_in_parts_goes_on_in_parts(view: VictimView, monkeypatch: pytest.MonkeyPatch) -> None:
    """What did not fit into memory once is not tried again, so that the rounding is the same too."""
    monkeypatch.setattr(attacks.context, "CHECKPOINT_SECONDS", 0.0)
    whole, kept, parts = StationarityResidual._gradient, Memory(most=10), []

    def gradient(residual: StationarityResidual, *args: Any) -> torch.Tensor:
        parts.append(residual.parts)
        if residual.parts == 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(residual, *args)

    monkeypatch.setattr(StationarityResidual, "_gradient", gradient)
    with pytest.raises(Interrupted):
        RESUMED["kkt-span"].reconstruct(view, context(kept=kept))
    assert parts.count(1) == 1
    kept.most = 10**9
    RESUMED["kkt-span"].reconstruct(view, context(kept=kept))
    assert parts.count(1) == 1


def test_a_search_for_a_seed_ends_with_its_budget_and_leaves_no_trace(view: VictimView) -> None:
    ctx = context(Budget(seconds=1e-9))
    found = KKTDelta(KKTDelta.Params(start="guess", seeds=1000)).reconstruct(view, ctx)
    assert ctx.stopped
    assert found.flags[0].startswith(f"no seed below {BATCH} drew the start")
    assert ctx.trace == []
