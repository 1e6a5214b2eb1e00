"""Naive inversion, white box and black box, and the class-mean control."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attacking import AFFINE
from pydantic import ValidationError

from attacks.base import Attack, AttackContext, Reconstruction
from attacks.class_mean import ClassMean
from attacks.context import Budget
from attacks.inversion import Inversion
from bench.run.disclosure import view_of
from victims.base import Victim
from victims.obtain import obtain
from victims.spec import MLPSpec, VictimSpec

CPU = torch.device("cpu")
HIDDEN = AFFINE.model_copy(update={"architecture": MLPSpec(hidden=(8,), first_layer_scale=None)})


def attacked(attack: type[Attack[Any]], spec: VictimSpec, **chosen: Any) -> tuple[Victim, Reconstruction]:
    victim = obtain(spec, None, CPU, lambda progress: None, lambda notice: None)
    run = attack(attack.Params(**chosen))
    ctx = AttackContext(CPU, torch.Generator().manual_seed(0), lambda step, steps, **figures: None)
    return victim, run.reconstruct(view_of(victim, run.knowledge, CPU), ctx)


def logits(victim: Victim, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return (2 * labels - 1) * victim.model(images)


def test_inversion_climbs_inside_the_box() -> None:
    victim, found = attacked(Inversion, HIDDEN, candidates=20, steps=30, lr_range=(0.1, 1.0))
    assert found.labels is not None and found.confidence is not None
    reached = logits(victim, found.candidates, found.labels)
    truth = logits(victim, torch.from_numpy(victim.split.inputs), torch.from_numpy(victim.split.labels))
    assert float(found.candidates.abs().max()) <= 1
    assert float(reached.mean()) > float(truth.max())
    torch.testing.assert_close(found.confidence, reached)


def test_the_box_is_the_one_that_is_set_and_the_default_is_unsaid() -> None:
    _, found = attacked(Inversion, HIDDEN, candidates=20, steps=30, lr_range=(0.1, 1.0), pixels=(-0.5, 2.5))
    assert float(found.candidates.min()) == -0.5
    assert 1 < float(found.candidates.max()) <= 2.5
    assert Inversion.Params(pixels=(-1, 1)).model_dump() == Inversion.Params().model_dump()
    assert "pixels" not in Inversion.Params().model_dump(mode="json")
    with pytest.raises(ValidationError, match="the range of a pixel"):
        Inversion.Params(pixels=(1, 1))


@pytest.mark.parametrize(("access", "each"), [("weights", 1), ("logits", 2 * 5)])
def test_a_budget_ends_the_climb_and_what_it_took_is_counted(access: str, each: int) -> None:
    victim = obtain(AFFINE, None, CPU, lambda progress: None, lambda notice: None)
    run = Inversion(Inversion.Params(candidates=4, steps=30, access=access, directions=5))
    generator = torch.Generator().manual_seed(0)
    ctx = AttackContext(CPU, generator, lambda step, steps, **figures: None, Budget(steps=7))
    assert run.reconstruct(view_of(victim, run.knowledge, CPU), ctx).grad_evals == 7 * each


def test_the_black_box_climbs_where_the_white_box_does() -> None:
    """On an affine victim the estimated gradient is the gradient, up to its noise."""
    chosen: dict[str, Any] = {"candidates": 6, "steps": 5, "lr": 1e-2, "lr_range": (1.0, 1.0)}
    _, white = attacked(Inversion, AFFINE, **chosen)
    _, black = attacked(Inversion, AFFINE, access="logits", directions=1000, **chosen)
    _, start = attacked(Inversion, AFFINE, **chosen | {"lr": 1e-9})
    moved = float((white.candidates - start.candidates).norm())
    assert moved > 0.1
    assert float((black.candidates - white.candidates).norm()) < 0.4 * moved


def test_a_candidate_stops_at_the_threshold() -> None:
    chosen: dict[str, Any] = {"candidates": 20, "steps": 200, "objective": "probability", "lr_range": (0.02, 0.02)}
    victim, found = attacked(Inversion, HIDDEN, threshold=0.7, **chosen)
    assert found.labels is not None
    reached = logits(victim, found.candidates, found.labels).sigmoid()
    _, onwards = attacked(Inversion, HIDDEN, **chosen)
    assert onwards.labels is not None
    assert float((reached >= 0.7).double().mean()) > 0.5
    assert float(reached.max()) < float(logits(victim, onwards.candidates, onwards.labels).sigmoid().max())


def test_total_variation_smooths() -> None:
    def roughness(weight: float) -> float:
        _, found = attacked(Inversion, HIDDEN, candidates=20, steps=30, total_variation=weight)
        return float(found.candidates.diff(dim=-1).abs().mean())

    assert roughness(30.0) < 0.8 * roughness(0.0)


def test_class_means_are_those_of_images_that_are_no_members() -> None:
    victim, found = attacked(ClassMean, AFFINE)
    pool, labels = victim.split.test_inputs, victim.split.test_labels
    for candidate, label in zip(found.candidates, (0, 1), strict=True):
        expected = pool[labels == label].mean(0) - pool.mean(0)
        torch.testing.assert_close(candidate, torch.from_numpy(expected))


def test_without_images_to_average_there_is_none() -> None:
    """All 200 faces are learnt."""
    spec = AFFINE.model_copy(update={"name": "faces-own", "dataset": "faces", "n": 200})
    _, found = attacked(ClassMean, spec)
    assert found.flags == ("no image is left that was not trained on",)
    assert not found.candidates.any()
