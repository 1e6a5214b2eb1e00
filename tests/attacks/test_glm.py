"""The attack `glm` through its view: one candidate a model, and none where the parameters hold nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attacks.base import Architecture, AttackContext, Knowledge, Reconstruction, VictimView
from attacks.context import Budget
from attacks.glm import GeneralisedLinear, GLMParams
from attacks.informed.noisy import expected_record
from bench.run.disclosure import view_of
from victims.errors import UserError
from victims.informed.cache import obtain
from victims.informed.glm import GLM
from victims.informed.privacy import output_deviation
from victims.informed.spec import GLMArchitecture, GLMSpec, InformedSpec, Newton, OutputPrivacy
from victims.informed.victim import InformedVictim

CPU = torch.device("cpu")


def attacked(view: VictimView, **params: Any) -> Reconstruction:
    context = AttackContext(CPU, torch.Generator(), lambda step, steps, **figures: None)
    return GeneralisedLinear(GLMParams(**params)).reconstruct(view, context)


def victim_of(dataset: str, **fields: Any) -> InformedVictim:
    spec = GLMSpec(name=f"{dataset}-tiny", dataset=dataset, **({"n": 120, "targets": 6} | fields))
    return obtain(spec, None, CPU, lambda done, total: None, lambda line: None)


@pytest.mark.parametrize(
    ("dataset", "architecture", "training"),
    [
        ("cancer", GLMArchitecture(), Newton()),
        ("cancer", GLMArchitecture(intercept="penalised"), Newton(strength=0.1, convention="mean-loss")),
        ("diabetes", GLMArchitecture(family="linear"), Newton(strength=0, convention="lambda")),
        ("diabetes", GLMArchitecture(family="poisson"), Newton(strength=1, convention="half-lambda")),
        ("digits", GLMArchitecture(family="multinomial", outputs=10), Newton()),
    ],
)
def test_every_target_comes_out(dataset: str, architecture: GLMArchitecture, training: Newton) -> None:
    victim = victim_of(dataset, architecture=architecture, training=training)
    found = attacked(view_of(victim, GeneralisedLinear.needs, CPU))
    truth = torch.from_numpy(victim.split.targets.images)
    assert (found.candidates - truth).abs().max() < 1e-5
    assert found.labels is not None and found.labels.tolist() == victim.split.targets.labels.tolist()
    assert any(flag.startswith("condition: median") for flag in found.flags)
    assert found.confidence is not None
    conditions = 10**-found.confidence
    assert f"largest {conditions.max():.1e}" in next(flag for flag in found.flags if "condition" in flag)


def test_without_an_intercept_most_targets_come_out_and_the_labels_help() -> None:
    victim = victim_of("digits", architecture=GLMArchitecture(intercept="none"), n=400, targets=30)
    truth = torch.from_numpy(victim.split.targets.images)
    right = {}
    for told in (False, True):
        view = view_of(victim, GeneralisedLinear.needs | {Knowledge.LABELS}, CPU)
        off = (attacked(view, known_labels=told).candidates - truth).abs().flatten(1).amax(1)
        right[told] = int((off < 1e-4).sum())
    assert 25 <= right[False] <= right[True]


def test_a_model_that_fits_perfectly_has_no_candidate() -> None:
    random = np.random.default_rng(0)
    images = random.random((20, 1, 1, 3)).astype(np.float32)
    labels = images.reshape(20, 3) @ np.array([1, 2, 3])
    view = VictimView(
        {
            Knowledge.ARCHITECTURE: Architecture(GLMArchitecture(family="linear"), (1, 1, 3)),
            Knowledge.TRAINING: Newton(strength=0, convention="lambda"),
            Knowledge.KNOWN_POINTS: (torch.from_numpy(images).double(), torch.from_numpy(labels)),
            Knowledge.WEIGHTS: {
                "coef": torch.tensor([[[1.0, 2, 3]], [[1, 2, 4]]], dtype=torch.float64),
                "intercept": torch.zeros(2, 1, dtype=torch.float64),
            },
        },
        GeneralisedLinear.needs,
    )
    found = attacked(view)
    assert found.candidates[0].isnan().all() and found.candidates[1].isfinite().all()
    assert any("1 of 2 records are fitted perfectly: unidentifiable" in flag for flag in found.flags)


def test_a_spent_budget_leaves_out_the_records_that_follow() -> None:
    view = view_of(victim_of("cancer"), GeneralisedLinear.needs, CPU)
    ctx = AttackContext(CPU, torch.Generator(), lambda step, steps, **figures: None, Budget(steps=1))
    whole, cut = attacked(view), GeneralisedLinear(GLMParams()).reconstruct(view, ctx)
    assert ctx.stopped
    assert torch.equal(cut.candidates[0], whole.candidates[0])
    assert cut.candidates[1:].isnan().all() and len(cut.candidates) == 6
    assert cut.labels is not None and cut.labels[1:].tolist() == [-1] * 5
    assert "5 of 6 records left out for the budget" in cut.flags
    assert not any("unidentifiable" in flag for flag in cut.flags)


def test_noise_that_was_added_is_weighed_against_what_is_known_of_records() -> None:
    """Its size is that for all 121 records that a model was fitted to."""
    architecture = GLMArchitecture(intercept="penalised")
    training = Newton(strength=0.1, convention="mean-loss", privacy=OutputPrivacy(epsilon=10))
    victim = victim_of("cancer", architecture=architecture, training=training)
    view = view_of(victim, GeneralisedLinear.needs, CPU)
    found = attacked(view)
    records, labels = view.known_points[0].flatten(1).double().numpy(), view.known_points[1].numpy()
    deviation = output_deviation(architecture, training, 121, records.shape[1])
    for place, candidate in enumerate(found.candidates):
        coef, intercept = (view.weights[name][place].numpy() for name in ("coef", "intercept"))
        model = GLM(architecture, training.penalty(121), coef, intercept)
        expected = expected_record(model, records, labels[:, None].astype(float), deviation)
        assert candidate.flatten().numpy() == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert not torch.equal(found.candidates, attacked(view, noise="ignored").candidates)


def test_a_linear_model_without_intercept_needs_the_labels() -> None:
    architecture = GLMArchitecture(family="linear", intercept="none")
    victim = victim_of("diabetes", architecture=architecture, training=Newton(strength=0.1, convention="lambda"))
    view = view_of(victim, GeneralisedLinear.needs | {Knowledge.LABELS}, CPU)
    with pytest.raises(UserError, match="with its label only: known_labels"):
        attacked(view)
    truth = torch.from_numpy(victim.split.targets.images)
    off = (attacked(view, known_labels=True).candidates - truth).abs().flatten(1).amax(1)
    assert int((off < 1e-4).sum()) >= 4


def test_what_it_declines_and_what_it_is_told() -> None:
    network = InformedSpec(name="digits-x", dataset="digits", n=10)
    assert GeneralisedLinear(GLMParams()).supports(network) == "a network is no generalised linear model"
    poisson = GLMSpec(
        name="x", dataset="diabetes", n=9, architecture=GLMArchitecture(family="poisson", intercept="none")
    )
    assert "no closed form" in (GeneralisedLinear(GLMParams()).supports(poisson) or "")
    assert GeneralisedLinear(GLMParams()).supports(GLMSpec(name="x", dataset="cancer", n=9)) is None
    told = GeneralisedLinear(GLMParams(known_labels=True)).knowledge - GeneralisedLinear(GLMParams()).knowledge
    assert told == {Knowledge.LABELS}
