"""The projection of a last layer's update onto features: the loss, its search, and images of tiny victims."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from attacking import BATCH_NORM, CPU, ORDINARY, RANDOM_FEATURES, Interrupted, Memory, attacked, context, victim_of

from attacks import context as contexts
from attacks.base import AttackContext, DivergedError
from attacks.known_start.params import ProjectionParams
from attacks.known_start.projection_loss import ProjectionLoss
from attacks.known_start.pursuit import Pursuit
from attacks.projection import BATCHED, FADED, MORE, STOOD, UNEQUAL, Projection
from bench.run.disclosure import view_of
from bench.store.checkpoint import CheckpointFile
from victims.defences.spec import RandomSeed, parse
from victims.defences.stacking import defended
from victims.equations.architectures import blank
from victims.recipes import Ordinary, Pretraining
from victims.spec import RandomFeaturesSpec, VictimSpec

TUNED = Ordinary(lr=0.02, batch_size=5, epochs=20, weight_decay=0, schedule="constant", last_layers=1)
TUNED = TUNED.model_copy(update={"pretraining": Pretraining(epochs=1)})
WIDE = ORDINARY.model_copy(
    update={
        "name": "digits-mlp-10-c10-wide",
        "architecture": ORDINARY.architecture.model_copy(update={"hidden": (200,)}),
        "training": TUNED,
    }
)


def features(ratio: float, n: int = 4, **fields: Any) -> VictimSpec:
    """Random features with p = ratio d n."""
    architecture = RandomFeaturesSpec(width=round(ratio * 64 * n), **fields)
    name = f"digits-rf-{n}-{architecture.width}-{architecture.activation}"
    return RANDOM_FEATURES.model_copy(update={"name": name, "n": n, "architecture": architecture})


def exact(spec: VictimSpec) -> tuple[ProjectionLoss, torch.Tensor]:
    """The loss of a trained victim in float64, and its images (n, d)."""
    victim = victim_of(spec)
    network = blank(spec.architecture, victim.input_shape).double()  # type: ignore[arg-type]
    network.load_state_dict(victim.model.state_dict())
    loss = ProjectionLoss.of(network.double().requires_grad_(False), victim.start, victim.input_shape)
    return loss, torch.from_numpy(victim.split.inputs).flatten(1).double()


@pytest.mark.parametrize("spec", [RANDOM_FEATURES, WIDE], ids=lambda spec: spec.architecture.kind)
def test_the_truth_spans_the_update_and_other_images_do_not(spec: VictimSpec) -> None:
    loss, truth = exact(spec)
    at_truth, _ = loss.evaluate(truth)
    others, _ = loss.evaluate(torch.randn(truth.shape, generator=torch.Generator().manual_seed(0)).double())
    assert at_truth < 1e-9  # the rounding of float32 weights, squared
    assert others > 1e-3


@pytest.mark.parametrize("spec", [RANDOM_FEATURES, WIDE], ids=["one output", "ten, with biases"])
def test_the_loss_is_the_published_one_and_its_gradient_autograds(spec: VictimSpec) -> None:
    """1 - tr(V' (Phi Phi')^-1 V) / ||D||^2 with V = Phi D', differentiated through the inverse."""
    loss, _ = exact(spec)
    images = torch.randn(3, 64, generator=torch.Generator().manual_seed(1)).double().requires_grad_()
    phi = loss.features(images)
    seen = phi @ loss.learnt.T
    published = 1 - (seen * torch.linalg.solve(phi @ phi.T, seen)).sum() / loss.learnt.square().sum()
    (expected,) = torch.autograd.grad(published, images)
    value, gradient = loss.evaluate(images)
    assert value == pytest.approx(float(published.detach()), rel=1e-9)
    assert float((gradient - expected).norm() / expected.norm()) < 1e-6


def test_what_a_candidate_adds_is_what_the_loss_rises_by_without_it() -> None:
    loss, _ = exact(RANDOM_FEATURES)
    images = torch.randn(5, 64, generator=torch.Generator().manual_seed(1)).double()
    whole, _ = loss.evaluate(images)
    for index, added in enumerate(loss.added(images).tolist()):
        without, _ = loss.evaluate(torch.cat([images[:index], images[index + 1 :]]))
        assert added == pytest.approx(without - whole, rel=1e-6)


def test_pruning_leaves_the_truth_in_its_order() -> None:
    loss, truth = exact(RANDOM_FEATURES)
    noise = torch.randn(6, 64, generator=torch.Generator().manual_seed(1)).double()
    mixed = torch.cat([noise[:2], truth[:1], noise[2:4], truth[1:], noise[4:]])
    assert torch.equal(loss.pruned(mixed, 4), truth)
    assert torch.equal(loss.pruned(truth, 4), truth)


def test_candidates_that_merged_leave_the_loss_finite() -> None:
    loss, truth = exact(RANDOM_FEATURES)
    twice, gradient = loss.evaluate(truth[[0, 0, 1, 2, 3]])
    assert twice < 1e-9
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("activation", ["relu", "relu+tanh"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_above_the_threshold_images_come_out_exactly(activation: str, seed: int) -> None:
    victim = victim_of(features(10, activation=activation))
    found = attacked(Projection(ProjectionParams()), victim, seed)
    truth = torch.from_numpy(victim.split.inputs).flatten(1)
    rows = found.candidates.flatten(1)
    best = (F.normalize(truth, dim=1) @ F.normalize(rows, dim=1).T).max(1)
    assert float(best.values.min()) > 0.999
    assert found.loss < 1e-6
    lengths = rows[best.indices].norm(dim=1) / truth.norm(dim=1)
    if activation == "relu":  # relu(c z) = c relu(z)
        assert torch.allclose(rows.norm(dim=1), torch.full((4,), 8.0))
        assert any("no length" in flag for flag in found.flags)
    else:
        assert float((lengths - 1).abs().max()) < 0.05
        assert not any("no length" in flag for flag in found.flags)
    assert found.flags[0] == "10 weights of the last layer for each unknown pixel"


def test_below_the_threshold_the_update_is_spanned_and_nothing_is_found() -> None:
    victim = victim_of(features(0.25, n=10, activation="relu+tanh"))
    found = attacked(Projection(ProjectionParams(surplus=0)), victim)
    truth = torch.from_numpy(victim.split.inputs).flatten(1)
    best = (F.normalize(truth, dim=1) @ F.normalize(found.candidates.flatten(1), dim=1).T).amax(1)
    assert found.loss < 1e-9
    assert float(best.max()) < 0.95


def test_both_signs_are_each_candidate_twice() -> None:
    victim = victim_of(RANDOM_FEATURES)
    plain, both = (
        attacked(Projection(ProjectionParams(signs=signs, rounds=1, steps=5)), victim) for signs in ("own", "both")
    )
    assert torch.equal(both.candidates, torch.cat([plain.candidates, -plain.candidates]))
    assert both.confidence is not None
    assert len(both.confidence) == 8


def test_images_come_out_from_below_a_tuned_last_layer() -> None:
    victim = victim_of(WIDE)
    found = attacked(Projection(ProjectionParams(rounds=2)), victim)
    candidates = F.normalize(found.candidates.flatten(1), dim=1)
    members, others = (
        (F.normalize(torch.from_numpy(given).flatten(1), dim=1) @ candidates.T).amax(1)
        for given in (victim.split.inputs, victim.split.test_inputs)
    )
    # five of ten images that are no members exceed the others' upper tenth with probability .0016
    assert float(members.median()) > float(others.quantile(0.9))


def test_a_killed_search_ends_where_an_undisturbed_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "CHECKPOINT_SECONDS", 0.0)
    victim = victim_of(features(2))
    attack = Projection(ProjectionParams(rounds=2, steps=150, spanned=1e-20))
    whole = attacked(attack, victim)
    for most in (1, 2, 4):
        memory = Memory(most=most)

        def run(memory: Memory = memory) -> Any:
            ctx = context()
            kept = AttackContext(CPU, ctx.generator, ctx.progress, checkpoints=memory)
            return attack.reconstruct(view_of(victim, attack.knowledge, CPU), kept)

        with pytest.raises(Interrupted):
            run()
        memory.most = 10**9
        again = run()
        assert torch.equal(again.candidates, whole.candidates)
        assert again.grad_evals == whole.grad_evals


def test_a_checkpoint_can_be_written_after_every_chunk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(contexts, "CHECKPOINT_SECONDS", 0.0)
    loss, _ = exact(features(2))
    ctx, file = context(), CheckpointFile(tmp_path / "checkpoint", "", "")
    ctx.checkpoints = file
    pursuit = Pursuit(loss, (4, 64), ProjectionParams(rounds=2, steps=20, spanned=1e-20), ctx)
    pursuit.run()
    assert not file.trouble
    kept = file.load()
    assert kept is not None
    assert torch.equal(kept.state["best"], pursuit.best)


def test_a_budget_ends_it_with_what_it_has() -> None:
    loss, truth = exact(RANDOM_FEATURES)
    ctx = context()
    ctx.budget = contexts.Budget(steps=7)
    pursuit = Pursuit(loss, (4, 64), ProjectionParams(), ctx)
    pursuit.run()
    assert 7 <= pursuit.spent < 12
    assert pursuit.best.shape == truth.shape
    assert math.isfinite(pursuit.loss)


def test_the_best_round_is_kept_though_a_later_one_is_worse() -> None:
    ended: dict[int, torch.Tensor] = {}

    def evaluate(candidates: torch.Tensor) -> tuple[float, torch.Tensor]:
        ended[pursuit.stage] = candidates.clone()
        return 0.5 + 0.1 * pursuit.stage, torch.zeros_like(candidates)

    def pruned(candidates: torch.Tensor, count: int) -> torch.Tensor:
        return candidates[-count:]  # the new ones

    projection: Any = SimpleNamespace(learnt=torch.zeros(1, 1), evaluate=evaluate, pruned=pruned)
    pursuit = Pursuit(projection, (4, 64), ProjectionParams(rounds=2, steps=2), context())
    pursuit.run()
    assert sorted(ended) == [0, 1, 2, 3] and not torch.equal(ended[1], ended[3])
    assert pursuit.loss == pytest.approx(0.6)
    assert torch.equal(pursuit.best, ended[1])


def test_a_loss_that_is_not_finite_is_told() -> None:
    loss, _ = exact(RANDOM_FEATURES)
    broken = replace(loss, learnt=loss.learnt * math.nan)
    with pytest.raises(DivergedError, match="not finite"):
        Pursuit(broken, (4, 64), ProjectionParams(rounds=1, steps=2), context()).run()


def test_it_says_what_it_cannot_take() -> None:
    attack = Projection(ProjectionParams())
    assert attack.supports(RANDOM_FEATURES) is attack.supports(WIDE) is None
    assert attack.supports(BATCH_NORM.model_copy(update={"training": TUNED})) == BATCHED
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"last_layers": None}, MORE),
        ({"optimiser": "adam"}, UNEQUAL),
        ({"weight_decay": 0.1}, FADED),
    )
    for changes, reason in cases:
        assert attack.supports(WIDE.model_copy(update={"training": TUNED.model_copy(update=changes)})) == reason
    assert "not known" in str(attack.supports(defended(RANDOM_FEATURES, [RandomSeed()])))


def test_where_nothing_moved_or_all_did_it_says_so_and_does_not_search() -> None:
    still = attacked(Projection(ProjectionParams()), victim_of(RANDOM_FEATURES.as_twin("untrained")))
    assert still.flags == (STOOD,)
    noised = attacked(Projection(ProjectionParams()), victim_of(defended(RANDOM_FEATURES, [parse("noise=0.01")])))
    assert noised.flags[0].startswith(MORE)
    assert still.candidates.abs().sum() == noised.candidates.abs().sum() == 0


def test_it_runs_in_a_process_of_its_own(run: Callable[..., Any], results: Path) -> None:
    ended = run("-a", "projection", "-v", "digits-rf-6-3840", "--set", "steps=20", "--jobs", 1, "--controls", "quick")
    assert ended.status == 0, ended.err
    (record,) = pd.read_csv(results / "runs.csv").to_dict("records")
    assert (record["status"], record["knowledge"]) == ("ok", "architecture+initial weights+n+weights")
