"""bilevel and deco: the truth is a fixed point, and what goes in comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from attacking import AFFINE
from torch import Tensor

import attacks.implicit.hypergradient
import attacks.optimisation.descent
from attacks.base import Attack, AttackContext, DivergedError, Reconstruction
from attacks.bilevel import Bilevel
from attacks.deco import Deco
from attacks.implicit.hypergradient import hypergradient
from attacks.optimisation.descent import descend
from bench.run.disclosure import view_of
from victims.base import Victim
from victims.errors import UserError
from victims.obtain import obtain
from victims.spec import MLPSpec, NormalizedDescent, VictimSpec

CPU = torch.device("cpu")
HIDDEN = AFFINE.model_copy(update={"architecture": MLPSpec(hidden=(8,), first_layer_scale=None)})
PLAIN = HIDDEN.model_copy(update={"training": NormalizedDescent(steps=60)})

both = pytest.mark.parametrize("attack", [Bilevel, Deco])


def attacked(
    attack: type[Attack[Any]], spec: VictimSpec, **chosen: Any
) -> tuple[Victim, Reconstruction, AttackContext]:
    victim = obtain(spec, None, CPU, lambda progress: None, lambda notice: None)
    run = attack(attack.Params(**chosen))
    ctx = AttackContext(CPU, torch.Generator().manual_seed(0), lambda step, steps, **figures: None)
    return victim, run.reconstruct(view_of(victim, run.knowledge, CPU), ctx), ctx


def nearest(images: torch.Tensor, pool: torch.Tensor) -> float:
    return float((torch.cdist(images.flatten(1), pool.flatten(1)).square() / images[0].numel()).min(1).values.mean())


@both
def test_the_truth_stays(attack: type[Attack[Any]]) -> None:
    victim, found, _ = attacked(attack, AFFINE, init="truth", steps=20)
    assert found.loss < 1e-10
    assert nearest(found.candidates, torch.from_numpy(victim.split.inputs)) < 1e-4


@both
def test_noise_and_strangers_reach_the_weights_as_well(attack: type[Attack[Any]]) -> None:
    """The paper's finding: the objective is met by images that are no members."""
    victim, noise, ctx = attacked(attack, AFFINE, init="uniform", init_scale=0.5, steps=60)
    truth, held_out = torch.from_numpy(victim.split.inputs), torch.from_numpy(victim.split.test_inputs)
    start = ctx.trace[0]["distance" if attack is Bilevel else "residual"]
    assert noise.loss < 1e-3 < start
    assert nearest(noise.candidates, truth) > 0.05

    _, strangers, _ = attacked(attack, AFFINE, init="partition", steps=60)
    assert strangers.loss < 1e-3
    assert nearest(strangers.candidates, held_out) < 0.7 * nearest(strangers.candidates, truth)


@pytest.mark.parametrize("optimizer", ["lbfgs", "momentum"])
@pytest.mark.parametrize("labels", ["balanced", "learnt"])
def test_bilevel_goes_down(optimizer: str, labels: str) -> None:
    _, found, ctx = attacked(Bilevel, AFFINE, steps=15, optimizer=optimizer, labels=labels, lr=0.05)
    assert found.loss < 0.9 * ctx.trace[0]["distance"]
    assert found.flags == ()


@pytest.mark.parametrize("labels", ["balanced", "learnt"])
def test_bilevel_descends_along_the_gradient_of_its_distance(labels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In images and in the logits of the targets, by central differences at its start."""

    def checked(evaluate: Callable[[Tensor], tuple[float, Tensor]], start: Tensor, *args: Any) -> tuple[Tensor, float]:
        value, gradient = evaluate(start)
        generator, n = torch.Generator().manual_seed(0), AFFINE.n
        assert len(start) == n * 64 + (n if labels == "learnt" else 0)
        for part in (slice(0, n * 64), slice(n * 64, None))[: 2 if labels == "learnt" else 1]:
            direction = torch.zeros_like(start)
            direction[part] = torch.randn(len(start[part]), generator=generator, dtype=start.dtype)
            ahead, behind = (evaluate(start + sign * 1e-4 * direction)[0] for sign in (1, -1))
            assert float(gradient @ direction) == pytest.approx((ahead - behind) / 2e-4, rel=1e-3)
        return start, value

    monkeypatch.setattr(attacks.optimisation.descent, "descend", checked)
    attacked(Bilevel, AFFINE, labels=labels, lower_tolerance=1e-10, inverse_tolerance=1e-10)


def test_bilevel_trains_on_from_where_training_last_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[Any] = []

    def watched(problem: Any, released: Any, start: Any, *args: Any) -> Any:
        assert start is (ends[-1] if ends else released)
        found = hypergradient(problem, released, start, *args)
        ends.append(found.solution)
        return found

    monkeypatch.setattr(attacks.implicit.hypergradient, "hypergradient", watched)
    attacked(Bilevel, AFFINE, steps=5)
    assert len(ends) >= 5


@both
def test_a_candidate_is_as_sure_as_its_multiplier_is_large(attack: type[Attack[Any]]) -> None:
    """Both signs are shares in the weights: those of one class are as sure as those of the other."""
    _, found, _ = attacked(attack, AFFINE, init="truth", steps=5)
    assert found.coefficients is not None and found.confidence is not None
    assert float(found.coefficients.min()) < 0 < float(found.coefficients.max())
    assert torch.equal(found.confidence, found.coefficients.abs())


def test_bilevel_says_what_it_did_where_the_minimum_is_not_unique() -> None:
    _, hidden, _ = attacked(Bilevel, HIDDEN, steps=2)
    assert hidden.flags[0] == "lower-level minimum not unique: damped by 0.01"
    _, plain, _ = attacked(Bilevel, PLAIN, steps=2, damping=0.1)
    assert plain.flags[0] == "lower-level minimum not unique: damped by 0.1"
    assert plain.candidates.isfinite().all()


def test_bilevel_says_what_did_not_converge() -> None:
    _, found, _ = attacked(Bilevel, AFFINE, steps=2, lower_steps=1, lower_tolerance=1e-30, inverse_steps=1)
    assert any(flag.startswith("lower level stopped at relative gradient") for flag in found.flags)
    assert any(flag.startswith("inverse-Hessian product stopped at relative residual") for flag in found.flags)


@both
def test_what_is_not_finite_has_diverged(attack: type[Attack[Any]]) -> None:
    with pytest.raises(DivergedError):
        attacked(attack, AFFINE, init_scale=1e200, steps=3)


def test_what_an_attack_cannot_do_is_said() -> None:
    assert Bilevel(Bilevel.Params()).supports(AFFINE) is None
    assert Bilevel(Bilevel.Params()).supports(HIDDEN) is None
    assert "every step" in str(Bilevel(Bilevel.Params()).supports(VictimSpec(name="x", dataset="digits", n=6)))
    assert Deco(Deco.Params()).supports(AFFINE) is None
    assert "weight decay" in str(Deco(Deco.Params()).supports(PLAIN))


def test_descent_keeps_the_best_point() -> None:
    def bowl(point: torch.Tensor) -> tuple[float, torch.Tensor]:
        return float((point - 3).square().sum()), 2 * (point - 3)

    start = torch.zeros(4, dtype=torch.float64)
    for optimizer, lr in (("lbfgs", 1.0), ("momentum", 0.05), ("momentum", 2.0)):
        point, value = descend(bowl, start, optimizer, 100, lr, lambda step, value: None)
        assert value == pytest.approx(bowl(point)[0])
        assert value <= 36
    point, _ = descend(bowl, start, "lbfgs", 100, 1.0, lambda step, value: None)
    torch.testing.assert_close(point, torch.full_like(start, 3))


def test_no_damping_without_weight_decay_is_one_clear_line() -> None:
    with pytest.raises(UserError, match="damping=0: without weight decay"):
        attacked(Bilevel, PLAIN, damping=0.0, steps=1)
