"""The deleted record from two releases: exact where theory says so, near where the Hessian is estimated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from attacking import CPU, context
from torch import Tensor

from attacks.context import Budget
from attacks.deletion.gradient import deleted_gradient
from attacks.deletion.record import seen_by_first_layer
from attacks.deletion.search import mismatch, summed_gradients
from attacks.deletion.span import explaining, spanned
from attacks.unlearning import Unlearning, UnlearningParams
from bench.run.disclosure import view_of
from bench.scoring import PROTOCOLS
from bench.scoring.evaluation import Reference, count_scores
from victims.deletion import cache
from victims.deletion.cache import training_records
from victims.deletion.objective import Objective, flat, named
from victims.deletion.spec import Deletion, DeletionSpec, ShallowSpec
from victims.deletion.victim import DeletionVictim

RIDGE = ShallowSpec()
SOFTMAX = ShallowSpec(loss="cross-entropy")
FOURIER = ShallowSpec(front="fourier", units=300, width=4.0)
TANH = ShallowSpec(front="hidden", units=5, loss="cross-entropy")


def victim_of(
    architecture: ShallowSpec, dataset: str = "digits", n: int = 120, targets: int = 6, **training: Any
) -> DeletionVictim:
    deletion = Deletion(**training)
    name = f"{dataset}-unlearn-tiny-{n}"
    spec = DeletionSpec(name=name, dataset=dataset, n=n, targets=targets, architecture=architecture, training=deletion)
    return cache.obtain(spec, None, CPU, lambda done, models: None, lambda notice: None)


def attacked(victim: DeletionVictim, **params: Any) -> Any:
    attack = Unlearning(UnlearningParams(**params))
    return attack.reconstruct(view_of(victim, attack.knowledge, CPU), context())


def errors(victim: DeletionVictim, candidates: Tensor) -> Tensor:
    """MSE of each target, candidates of one deletion in the best order."""
    reference = Reference.of(victim)
    images = count_scores(PROTOCOLS["balle2022"], reference.matcher(candidates))["n_good"].reconstruction
    return (images.double() - reference.truth.images).square().flatten(1).mean(1)


def n_good(victim: DeletionVictim, candidates: Tensor) -> int:
    return count_scores(PROTOCOLS["balle2022"], Reference.of(victim).matcher(candidates))["n_good"].n_good


def true_gradients(victim: DeletionVictim, theta: Tensor) -> Tensor:
    """The gradients (B, p) of what was deleted, by autograd."""
    spec, records = victim.spec, victim.spec.training.records
    images, labels = (part[-spec.targets :] for part in training_records(victim.split))
    found = []
    for batch in torch.arange(spec.targets).split(records):
        objective = Objective.of(spec.architecture, 0.0, images[batch], labels[batch])
        found.append(torch.func.grad(objective.value)(theta))
    return torch.stack(found)


DELETIONS = {
    "ridge": (RIDGE, {"penalty": 0.1}),
    "softmax": (SOFTMAX, {"penalty": 0.1}),
    "fourier": (FOURIER, {"penalty": 0.1}),
    "tanh": (TANH, {"penalty": 0.1}),
    "newton": (SOFTMAX, {"penalty": 0.1, "method": "newton"}),
    "tanh, newton": (TANH, {"penalty": 2.0, "method": "newton"}),
    "ascent": (TANH, {"method": "ascent"}),
    "together": (SOFTMAX, {"penalty": 0.1, "records": 3}),
}


@pytest.mark.parametrize("case", DELETIONS)
def test_the_deleted_gradient_is_exact_with_the_records_that_stayed(case: str) -> None:
    architecture, training = DELETIONS[case]
    victim = victim_of(architecture, **training)
    theta = flat(victim.before)
    everything = Objective.of(architecture, victim.spec.training.penalty, *training_records(victim.split))
    for release, wanted in enumerate(true_gradients(victim, theta)):
        k = victim.spec.training.records
        stays = torch.ones(len(everything.seen), dtype=torch.bool)
        stays[120 - 6 + release * k : 120 - 6 + (release + 1) * k] = False
        rest = everything.part(stays, everything.penalty)
        after = flat({name: value[release] for name, value in victim.weights.items()})
        found = deleted_gradient(victim.spec.training, rest, theta, after, "exact")
        assert float((found - wanted).norm() / wanted.norm()) < 1e-7


def test_to_first_order_the_middle_is_better_than_the_end() -> None:
    """The error of a product with the Hessian half way is of third order, of one at an end of second."""
    victim = victim_of(SOFTMAX, penalty=0.1)
    theta, training = flat(victim.before), victim.spec.training
    everything = Objective.of(SOFTMAX, training.penalty, *training_records(victim.split))
    wanted = true_gradients(victim, theta)
    off: dict[str, list[float]] = {"exact": [], "midpoint": [], "after": []}
    for release, gradient in enumerate(wanted):
        stays = torch.arange(len(everything.seen)) != 114 + release
        rest = everything.part(stays, training.penalty)
        after = flat({name: value[release] for name, value in victim.weights.items()})
        for curvature, gaps in off.items():
            found = deleted_gradient(training, rest, theta, after, curvature)  # type: ignore[arg-type]
            gaps.append(float((found - gradient).norm() / gradient.norm()))
    for exact, midpoint, end in zip(*off.values(), strict=True):
        assert exact < 1e-8 < midpoint < end / 3


@pytest.mark.parametrize(
    ("architecture", "training"),
    [
        (RIDGE, {"penalty": 0.1}),
        (SOFTMAX, {"penalty": 0.1}),
        (TANH, {"penalty": 0.5}),
        (SOFTMAX, {"penalty": 0.1, "method": "newton"}),
        (RIDGE, {"penalty": 1.0, "records": 3}),
        (SOFTMAX, {"penalty": 1.0, "records": 2}),
    ],
    ids=["ridge", "softmax", "tanh", "newton", "three at once", "two at once"],
)
def test_the_oracle_gets_every_record_to_rounding(architecture: ShallowSpec, training: dict[str, Any]) -> None:
    """It has the records that stayed. In closed form what is left is the rounding of candidates to float32, squared;
    two records of one class that were deleted together end where the search of them does.
    """
    victim = victim_of(architecture, **training)
    found = attacked(victim, records="retained")
    alone = victim.spec.training.records == 1
    assert float(errors(victim, found.candidates).max()) < (1e-12 if alone else 1e-6)
    assert found.loss < (1e-10 if alone else 1e-7)
    if victim.spec.training.records == 1:
        assert found.labels.tolist() == victim.split.targets.labels.tolist()


@pytest.mark.parametrize("records", [1, 2])
def test_a_spent_budget_leaves_out_the_deletions_that_follow(records: int) -> None:
    victim = victim_of(SOFTMAX, penalty=0.1, records=records)
    attack = Unlearning(UnlearningParams(evaluations=1))
    view = view_of(victim, attack.knowledge, CPU)
    whole, ctx = attack.reconstruct(view, context()), replace(context(), budget=Budget(steps=1))
    cut = attack.reconstruct(view, ctx)
    assert ctx.stopped
    assert cut.candidates.shape == whole.candidates.shape
    gap = (cut.candidates[:records] - whole.candidates[:records]).abs().max()
    assert float(gap) <= (0 if records == 1 else 0.1)  # several are searched, and the budget ends that, too
    assert cut.candidates[records:].isnan().all()
    assert cut.labels is not None and cut.labels[records:].tolist() == [-1] * (6 - records)
    assert cut.confidence is not None and bool((cut.confidence[records:] == -torch.inf).all())
    deletions = 6 // records
    assert f"{deletions - 1} of {deletions} deletions left out for the budget" in cut.flags


def test_fourier_features_are_inverted_by_search() -> None:
    victim = victim_of(FOURIER, penalty=1.0)
    found = attacked(victim, records="retained")
    assert float(errors(victim, found.candidates).median()) < 1e-4
    assert found.grad_evals > 0
    few = attacked(victim, records="retained", evaluations=2)
    assert few.grad_evals < found.grad_evals
    assert few.loss > found.loss


def test_gradient_ascent_needs_no_public_record() -> None:
    victim = victim_of(SOFTMAX, method="ascent", steps=1)
    found = attacked(victim, public=1)
    assert float(errors(victim, found.candidates).max()) < 1e-12
    assert not found.flags


@pytest.mark.parametrize(
    ("dataset", "architecture", "n", "penalty"),
    [
        ("digits", RIDGE, 1000, 100.0),
        ("digits", SOFTMAX, 1000, 30.0),
        ("cancer", ShallowSpec(loss="cross-entropy", outputs=2), 400, 10.0),
        ("diabetes", ShallowSpec(outputs=1), 300, 1.0),
    ],
    ids=["ridge", "softmax", "cancer", "diabetes"],
)
def test_public_records_serve_for_those_that_stayed(
    dataset: str, architecture: ShallowSpec, n: int, penalty: float
) -> None:
    """Of 20 records at least 15 are nearer than the nearest public one; those of another deletion are not."""
    victim = victim_of(architecture, dataset, n, 20, penalty=penalty)
    candidates = attacked(victim).candidates
    assert n_good(victim, candidates) >= 15
    assert n_good(victim, candidates.roll(1, 0)) <= 2


def test_a_regression_tells_the_y_of_its_record_too() -> None:
    victim = victim_of(ShallowSpec(outputs=1), "diabetes", 300, 10, penalty=0.1)
    found = attacked(victim, records="retained")
    assert float(errors(victim, found.candidates).max()) < 1e-12
    assert found.labels.tolist() == victim.split.targets.labels.tolist()


def test_the_first_layer_shows_the_record_and_the_scale_is_bounded() -> None:
    record, error = torch.tensor([3.0, 4.0]).double(), torch.tensor([-1.0, 0.5]).double()
    gradient = {"layers.0.weight": error[:, None] * record, "layers.0.bias": error}
    assert torch.allclose(seen_by_first_layer(gradient, 100.0), record)
    gradient["layers.0.bias"] = error * 1e-9
    assert float(seen_by_first_layer(gradient, 10.0).norm()) == pytest.approx(10.0)


def test_summed_gradients_are_those_of_autograd_and_the_truth_has_no_mismatch() -> None:
    victim = victim_of(TANH, penalty=0.5, records=3)
    theta = flat(victim.before)
    images, labels = (part[-6:] for part in training_records(victim.split))
    batches = images.view(2, 3, *images.shape[1:]), labels.view(2, 3)
    wanted = true_gradients(victim, theta)
    assert torch.allclose(summed_gradients(TANH, theta, *batches), wanted, rtol=1e-10, atol=1e-12)
    assert float(mismatch(TANH, theta, *batches, wanted).max()) < 1e-20
    assert float(mismatch(TANH, theta, batches[0].flip(0), batches[1], wanted).min()) > 1e-2


def test_candidates_of_both_spans_are_the_records_and_the_right_ones_are_chosen() -> None:
    """Of three records deleted at once, two being of one class, among candidates of other classes."""
    victim = victim_of(SOFTMAX, penalty=1.0)
    model, inputs = victim.before, 64
    images, labels = (part[:40] for part in training_records(victim.split))
    records = images.flatten(1).double()
    alike = (labels == labels[0]).nonzero()[:2, 0]
    other = (labels != labels[0]).nonzero()[:1, 0]
    three = torch.cat([alike, other])
    summed = Objective.of(SOFTMAX, 0.0, images[three], labels[three]).gradient(flat(model))
    gradient = named(SOFTMAX, inputs, summed)
    found = spanned(SOFTMAX, model, gradient, 3, labels[other], records[other] + 0.3)
    assert torch.allclose(found, records[other], atol=1e-4)
    chosen = explaining(SOFTMAX, model, gradient, records, labels, 3)
    assert sorted(chosen.tolist()) == sorted(three.tolist())
