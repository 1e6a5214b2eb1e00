"""Naming one of N records from the trace of a private training: the evidence by a plain loop, the success by theory."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from attacking import CPU, attacked, victim_of

from attacks.informed.naming import end_evidence, trace_evidence
from attacks.prior_aware import PriorAware, PriorAwareParams, _lead
from bench.experiments import rero
from victims.informed.networks import LabelledImages, Parameters, initial
from victims.informed.privacy import noise_multiplier
from victims.informed.private_descent import PrivateDescent, Trained, clipped_gradients, train_privately
from victims.informed.spec import DenseSpec, Descent, GLMSpec, InformedSpec
from victims.informed.training import train_many
from victims.recipes import Privacy

DENSE = DenseSpec(hidden=(5,), activation="tanh", outputs=3)
AFFINE = DenseSpec(hidden=(), outputs=2)
SHAPE = (1, 3, 3)


def points(count: int, seed: int = 0) -> LabelledImages:
    own = torch.Generator().manual_seed(seed)
    return torch.rand(count, *SHAPE, generator=own), torch.randint(3, (count,), generator=own)


def released(
    training: Descent, prior: LabelledImages, fixed: LabelledImages, seeds: list[int]
) -> tuple[Trained, Parameters]:
    """Each model's own record is the first of its prior."""
    start = initial(DENSE, SHAPE, torch.Generator().manual_seed(5))
    own = prior[0][:, 0], prior[1][:, 0]
    return train_privately(DENSE, training, fixed, own, start, seeds, CPU, lambda done, total: None, traced=True), start


def a_prior(models: int, size: int) -> LabelledImages:
    images, labels = points(models * size, seed=3)
    return images.unflatten(0, (models, size)), labels.unflatten(0, (models, size))


@pytest.mark.parametrize("rate", [None, 0.4])
@pytest.mark.parametrize("likelihood", [True, False])
def test_the_evidence_is_that_of_a_plain_loop(rate: float | None, likelihood: bool) -> None:
    """In float64; the likelihood by the densities of noise with and without the record, up to what all share."""
    fixed, prior, steps = points(6), a_prior(2, 3), 7
    training = Descent(lr=0.5, momentum=0.5, epochs=steps, privacy=Privacy(clip=0.4, epsilon=5, sampling_rate=rate))
    found, start = released(training, prior, fixed, [1, 2])
    begun = {name: value.double() for name, value in start.items()}
    trace = {name: value.double() for name, value in found.trace.items()}
    problem = PrivateDescent(DENSE, training, fixed[0].double(), fixed[1])
    evidence = trace_evidence(DENSE, problem, begun, trace, (prior[0].double(), prior[1]), likelihood)
    deviation = 0.4 * noise_multiplier(training.privacy, steps)  # type: ignore[arg-type]
    for model in range(2):
        expected = torch.zeros(3, dtype=torch.float64)
        largest: list[torch.Tensor] = []
        theta, velocity = begun, {name: torch.zeros_like(value) for name, value in begun.items()}
        for step in range(steps):
            batch = list(range(6)) if problem.sampled is None else problem.sampled[step].nonzero()[:, 0].tolist()
            noisy = {name: value[model, step] for name, value in trace.items()}
            left = torch.cat([value.flatten() for value in noisy.values()])
            for record in batch:
                left = left - flat(theta, fixed[0][record], fixed[1][record])
            own = torch.stack([flat(theta, prior[0][model, j], prior[1][model, j]) for j in range(3)])
            if likelihood:
                density = torch.distributions.Normal(0.0, deviation)
                with_it = density.log_prob(left - own).sum(1)
                if rate is not None:
                    parts = torch.stack(
                        [with_it + math.log(rate), (density.log_prob(left).sum() + math.log1p(-rate)).expand(3)]
                    )
                    with_it = parts.logsumexp(0)
                expected += with_it
            else:
                largest.append(own @ left)
            for name in theta:
                velocity[name] = 0.5 * velocity[name] + noisy[name] / (7 * (rate or 1))
            theta = {name: value - 0.5 * velocity[name] for name, value in theta.items()}
        if not likelihood:  # an epoch is 1 / .4 = 2 steps, or 1 where all records are in every batch
            groups = [largest[at : at + (2 if rate else 1)] for at in range(0, steps, 2 if rate else 1)]
            expected = torch.stack([torch.stack(group).amax(0) for group in groups]).sum(0)
        centred = evidence[model] - evidence[model, 0] if likelihood else evidence[model]
        torch.testing.assert_close(centred, expected - expected[0] if likelihood else expected, rtol=1e-6, atol=1e-6)


def flat(theta: Parameters, image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    each = clipped_gradients(DENSE, 0.4, theta, image.double()[None], label[None])
    return torch.cat([value.flatten() for value in each.values()])


@pytest.mark.parametrize("mu", [0.37, 1.0, 2.0])
@pytest.mark.parametrize("likelihood", [True, False])
def test_with_orthogonal_gradients_the_success_is_the_integral(mu: float, likelihood: bool) -> None:
    """One-hot records far out: gradients of an affine classifier, all clipped, orthogonal to one in 10^4."""
    models, size, steps, scale = 6000, 8, 4, 100.0
    records = scale * torch.eye(size).view(size, 1, 1, size)
    own = torch.Generator().manual_seed(0)
    truth = torch.randint(size, (models,), generator=own)
    training = Descent(lr=1e-9, momentum=0, epochs=steps, privacy=Privacy(clip=1, epsilon=1))
    fixed = records[:2], torch.zeros(2, dtype=torch.long)
    problem = PrivateDescent(AFFINE, training, *fixed)
    problem.deviation = math.sqrt(steps) / mu
    start = {"layers.0.weight": torch.zeros(2, size), "layers.0.bias": torch.zeros(2)}
    each = clipped_gradients(AFFINE, 1.0, start, records, torch.zeros(size, dtype=torch.long))
    trace = {
        name: value[truth][:, None]
        + value[:2].sum(0)
        + problem.deviation * torch.randn(models, steps, *value.shape[1:], generator=own)
        for name, value in each.items()
    }
    prior = records.expand(models, -1, -1, -1, -1), torch.zeros(models, size, dtype=torch.long)
    evidence = trace_evidence(AFFINE, problem, start, trace, prior, likelihood)
    success, expected = float((evidence.argmax(1) == truth).double().mean()), rero.orthogonal(size, mu)
    assert abs(success - expected) < 4 * math.sqrt(expected * (1 - expected) / models)
    assert success < rero.gaussian(1 / size, mu)


@pytest.mark.parametrize(
    ("evidence", "rate"),
    [
        ("likelihood", None),
        ("likelihood", 0.5),
        ("inner-product", None),
        ("inner-product", 0.5),
        ("weights", None),  # sampled, which batches had the record moves the weights more than which record it was
    ],
)
def test_without_noise_every_record_is_named(evidence: str, rate: float | None) -> None:
    spec = InformedSpec(
        name="digits-elu10-30-trace",
        dataset="digits",
        n=30,
        targets=16,
        training=Descent(epochs=20, privacy=Privacy(epsilon=1e8, sampling_rate=rate)),
        prior=8,
    )
    victim = victim_of(spec)
    found = attacked(PriorAware(PriorAwareParams.model_validate({"evidence": evidence})), victim)
    assert torch.equal(found.candidates, torch.from_numpy(victim.split.targets.images))
    assert torch.equal(found.labels, torch.from_numpy(victim.split.targets.labels))  # type: ignore[arg-type]
    if evidence == "likelihood":
        assert found.flags == ("expects to have named 16.0 of 16",)


def test_the_ends_are_those_of_the_same_training_without_noise() -> None:
    fixed, prior = points(6), a_prior(2, 3)
    prior = prior[0][[0, 0]], prior[1][[0, 0]]  # targets of a group share their prior
    training = Descent(lr=0.5, epochs=9, privacy=Privacy(clip=100, epsilon=5))
    found, start = released(training, prior, fixed, [1, 2])
    problem = PrivateDescent(DENSE, training, *fixed)
    evidence = end_evidence(problem, start, found.parameters, prior, lambda step, told: False)
    plain = Descent(lr=0.5, epochs=9)
    ends = train_many(DENSE, plain, fixed, (prior[0][0], prior[1][0]), start, range(3), CPU)
    for model in range(2):
        away = [(ends[name] - found.parameters[name][model]).flatten(1) for name in ends]
        torch.testing.assert_close(evidence[model], -torch.cat(away, 1).double().square().sum(1), rtol=1e-3, atol=1e-6)


def test_where_records_are_sampled_the_end_takes_the_mean_share_of_the_own_record() -> None:
    """Of the known records the public batches, of the own one q times its gradient at every step."""
    fixed, prior, steps, rate = points(6), a_prior(1, 3), 7, 0.4
    training = Descent(lr=0.5, momentum=0.5, epochs=steps, privacy=Privacy(clip=0.4, epsilon=5, sampling_rate=rate))
    found, start = released(training, prior, fixed, [1])
    problem = PrivateDescent(DENSE, training, *fixed)
    assert problem.sampled is not None
    evidence = end_evidence(problem, start, found.parameters, prior, lambda step, told: False)[0]
    for record in range(3):
        theta, velocity = start, {name: torch.zeros_like(value) for name, value in start.items()}
        for step in range(steps):
            own = clipped_gradients(DENSE, 0.4, theta, prior[0][0], prior[1][0])
            known = clipped_gradients(DENSE, 0.4, theta, *fixed)
            batch = problem.sampled[step].nonzero()[:, 0]
            for name in theta:
                summed = known[name][batch].sum(0) + rate * own[name][record]
                velocity[name] = 0.5 * velocity[name] + summed / (7 * rate)
            theta = {name: value - 0.5 * velocity[name] for name, value in theta.items()}
        away = torch.cat([(theta[name] - found.parameters[name][0]).flatten() for name in theta])
        assert float(evidence[record]) == pytest.approx(-float(away.square().sum()), rel=1e-4)


def test_the_confidence_is_the_lead_over_the_second() -> None:
    assert _lead(torch.tensor([[1.0, 5.0, 3.0], [-2.0, -9.0, -2.5]])).tolist() == [2.0, 0.5]


@pytest.mark.parametrize("rate", [None, 0.2])
def test_no_success_passes_the_bound_and_the_attacks_own_estimate_is_right(rate: float | None) -> None:
    hits, expected, count, steps = 0.0, 0.0, 0, 10
    privacy = Privacy(clip=0.3, epsilon=4, sampling_rate=rate)
    for seed in (1, 2, 3):
        spec = InformedSpec(
            name="digits-elu4-20-trace",
            dataset="digits",
            n=20,
            targets=128,
            architecture=DenseSpec(hidden=(4,)),
            training=Descent(lr=2, momentum=0, epochs=steps, privacy=privacy),
            prior=4,
            seed=seed,
        )
        victim = victim_of(spec)
        found = attacked(PriorAware(PriorAwareParams()), victim)
        hits += float((found.candidates == torch.from_numpy(victim.split.targets.images)).flatten(1).all(1).sum())
        expected += float(found.flags[0].split()[4])
        count += 128
    multiplier = noise_multiplier(privacy, steps)
    bound = rero.gaussian(0.25, math.sqrt(steps) / multiplier)
    if rate is not None:
        bound = rero.sampled(0.25, multiplier, steps, rate, samples=50_000)
    four_sigma = 4 * math.sqrt(0.25 / count)
    assert 0.25 + four_sigma < hits / count < bound + four_sigma
    assert abs(hits - expected) / count < four_sigma


def test_victims_without_a_trace_are_declined() -> None:
    reason = PriorAware(PriorAwareParams()).supports(InformedSpec(name="x", dataset="digits", n=9))
    assert reason == "no trace of its training is released, and no prior"
    assert PriorAware(PriorAwareParams()).supports(GLMSpec(name="x", dataset="cancer", n=9)) == reason


def test_the_released_model_alone_needs_no_trace() -> None:
    attack: Any = PriorAware(PriorAwareParams(evidence="weights"))
    assert {item.value for item in PriorAware.needs - attack.knowledge} == {"gradient trace"}
    assert {item.value for item in attack.knowledge - PriorAware.needs} == {"weights"}
