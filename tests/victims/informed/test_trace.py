"""Private training whose trace is released: the trace is that of the training, and a prior that tells nothing more."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attacking import CPU, victim_of
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from pydantic import ValidationError

from bench.plan import registry
from victims.cache import cache_dir
from victims.defences.spec import parse
from victims.defences.stacking import defended
from victims.errors import UserError
from victims.files import sha256_file
from victims.informed.cache import TRACE, obtain
from victims.informed.networks import forward, initial
from victims.informed.privacy import gaussian_privacy, noise_multiplier
from victims.informed.private_descent import PrivateDescent, clipped_gradients, train_privately
from victims.informed.spec import DenseSpec, Descent, InformedSpec, SmallCNNSpec
from victims.informed.training import train_many
from victims.recipes import Privacy

DENSE = DenseSpec(hidden=(6,), activation="relu", outputs=3)
SHAPE = (1, 4, 4)
TRACED = InformedSpec(
    name="digits-elu10-30-trace",
    dataset="digits",
    n=30,
    targets=8,
    training=Descent(epochs=3, privacy=Privacy()),
    prior=4,
)


def points(count: int, seed: int = 0, shape: tuple[int, int, int] = SHAPE) -> tuple[torch.Tensor, torch.Tensor]:
    own = torch.Generator().manual_seed(seed)
    return torch.rand(count, *shape, generator=own), torch.randint(3, (count,), generator=own)


def traced(training: Descent, fixed: Any, extra: Any, seeds: list[int]) -> tuple[Any, dict[str, torch.Tensor]]:
    start = initial(DENSE, SHAPE, torch.Generator().manual_seed(9))
    silent = lambda done, total: None  # noqa: E731
    return train_privately(DENSE, training, fixed, extra, start, seeds, CPU, silent, traced=True), start


@pytest.mark.parametrize(("architecture", "shape"), [(DENSE, SHAPE), (SmallCNNSpec(outputs=3), (1, 12, 12))])
@pytest.mark.parametrize("clip", [0.3, 1e6])
def test_clipped_gradients_are_autograds(
    architecture: DenseSpec | SmallCNNSpec, shape: tuple[int, int, int], clip: float
) -> None:
    images, labels = points(5, shape=shape)
    drawn = initial(architecture, shape, torch.Generator().manual_seed(1))
    network = {name: value.double() for name, value in drawn.items()}
    found = clipped_gradients(architecture, clip, network, images.double(), labels)
    for place, (image, label) in enumerate(zip(images.double(), labels, strict=True)):
        leaves = {name: value.clone().requires_grad_() for name, value in network.items()}
        loss = torch.nn.functional.cross_entropy(forward(architecture, leaves, image[None]), label[None])
        gradients = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
        size = math.sqrt(sum(float(value.square().sum()) for value in gradients.values()))
        for name, value in gradients.items():
            torch.testing.assert_close(found[name][place], value * min(1, clip / size), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("rate", [None, 0.3])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_plain_loop_over_records_and_steps_gives_the_same_trace_and_weights(
    rate: float | None, momentum: float
) -> None:
    fixed, extra, clip, epochs = points(9), points(3, seed=1), 0.2, 4
    privacy = Privacy(clip=clip, epsilon=20, sampling_rate=rate)
    training = Descent(lr=0.5, momentum=momentum, epochs=epochs, order_seed=7, privacy=privacy)
    found, start = traced(training, fixed, extra, [11, 12, 13])
    deviation = clip * noise_multiplier(privacy, epochs)
    public = torch.Generator().manual_seed(7)
    batches = torch.rand(epochs, 9, generator=public) < (rate or 2)
    for model, seed in enumerate([11, 12, 13]):
        own = torch.Generator().manual_seed(seed)
        theta = {name: value.clone() for name, value in start.items()}
        velocity = {name: torch.zeros_like(value) for name, value in start.items()}
        for step in range(epochs):
            member = rate is None or bool(torch.rand((), generator=own) < rate)
            chosen = [k for k in range(9) if batches[step, k]]
            images = torch.cat([fixed[0][chosen], extra[0][model][None]][: 1 + member])
            labels = torch.cat([fixed[1][chosen], extra[1][model][None]][: 1 + member])
            each = clipped_gradients(DENSE, clip, theta, images, labels)
            for name, value in each.items():
                noisy = value.sum(0) + deviation * torch.randn(value.shape[1:], generator=own)
                torch.testing.assert_close(found.trace[name][model, step], noisy, rtol=1e-4, atol=1e-5)
                velocity[name] = momentum * velocity[name] + noisy / (10 * (rate or 1))
                theta[name] = theta[name] - 0.5 * velocity[name]
        for name, value in theta.items():
            torch.testing.assert_close(found.parameters[name][model], value, rtol=1e-4, atol=1e-5)


def test_the_start_and_the_trace_give_the_released_weights() -> None:
    privacy = Privacy(epsilon=5, sampling_rate=0.5)
    training = Descent(epochs=6, privacy=privacy)
    fixed = points(9)
    found, start = traced(training, fixed, points(70, seed=1), list(range(70)))  # more than a chunk
    problem = PrivateDescent(DENSE, training, *fixed)
    theta = {name: value.expand(70, *value.shape) for name, value in start.items()}
    velocity = {name: torch.zeros_like(value) for name, value in theta.items()}
    for step in range(6):
        theta, velocity = problem.advance(
            theta, velocity, {name: value[:, step] for name, value in found.trace.items()}
        )
    for name, value in theta.items():
        torch.testing.assert_close(found.parameters[name], value, rtol=0, atol=1e-6)
    silent = train_many(DENSE, training, fixed, points(70, seed=1), start, list(range(70)), CPU)
    assert all(torch.equal(silent[name], value) for name, value in found.parameters.items())


def test_a_record_is_sampled_at_its_rate() -> None:
    """The target is told from the noise where there is next to none: its gradient is in the sum, or nothing is."""
    count, rate, epochs = 40, 0.3, 50
    training = Descent(lr=1e-9, epochs=epochs, privacy=Privacy(clip=1, epsilon=1e5, sampling_rate=rate))
    fixed = points(5)
    found, start = traced(training, fixed, points(count, seed=1), list(range(count)))
    problem = PrivateDescent(DENSE, training, *fixed)
    parameters = {name: value.expand(count, *value.shape) for name, value in start.items()}
    taken = torch.zeros(count, epochs)
    for step in range(epochs):
        known = problem.known(parameters, step)
        left = [(found.trace[name][:, step] - known[name]).flatten(1) for name in known]
        taken[:, step] = torch.cat(left, 1).norm(dim=1)
    noise = problem.deviation * math.sqrt(sum(value.numel() for value in start.values()))
    assert noise < 0.2 and bool(((taken - (taken > 0.5).float()).abs() < 2 * noise).all())  # gradients are clipped to 1
    share, four = float((taken > 0.5).float().mean()), 4 * math.sqrt(rate * (1 - rate) / taken.numel())
    assert abs(share - rate) < four
    assert float(problem.sampled.float().mean()) == pytest.approx(rate, abs=4 * math.sqrt(rate / 250))  # type: ignore[union-attr]


@pytest.mark.parametrize(("epsilon", "rate"), [(3.0, 0.1), (30.0, 0.4)])
def test_the_noise_of_sampled_steps_has_its_epsilon(epsilon: float, rate: float) -> None:
    multiplier = noise_multiplier(Privacy(epsilon=epsilon, sampling_rate=rate), 20)
    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier)), 20))
    assert accountant.get_epsilon(1e-5) == pytest.approx(epsilon, rel=2e-3)
    assert multiplier < noise_multiplier(Privacy(epsilon=epsilon), 20)


def test_a_prior_holds_its_target_at_a_place_that_tells_nothing() -> None:
    spec = TRACED.model_copy(update={"targets": 400})
    split = victim_of(spec).split
    assert split.prior.shape == (400, 4)
    places = [row.tolist().index(target) for target, row in enumerate(split.prior)]
    groups = {tuple(sorted(row)) for row in split.prior.tolist()}
    assert groups == {tuple(range(first, first + 4)) for first in range(0, 400, 4)}
    four_sigma = 4 * math.sqrt(400 * 0.25 * 0.75)
    for position in range(4):
        assert abs(places.count(position) - 100) < four_sigma
        assert abs(places[position::4].count(position) - 25) < 4 * math.sqrt(100 * 0.25 * 0.75)
    own = split.targets.images[:, None]
    assert split.decoys.shape[:2] == (400, 3) and not bool((split.decoys == own).all((2, 3, 4)).any())


def test_a_prior_without_its_target_is_refused() -> None:
    split = victim_of(TRACED).split
    wrong = split.prior.copy()
    wrong[2] = np.array([4, 5, 6, 7])
    with pytest.raises(UserError, match="target 2 is none of the 4 of its prior"):
        replace(split, prior=wrong)


def test_a_trace_is_kept_beside_the_weights_and_made_again_if_it_was_altered() -> None:
    notices: list[str] = []

    def again() -> Any:
        return obtain(TRACED, None, CPU, lambda done, total: None, notices.append)

    first, kept = again(), again()
    assert first.trace is not None and kept.card.train_s == first.card.train_s
    trace = {name: value.clone() for name, value in first.trace.items()}  # what is loaded may be a view of the file
    assert all(torch.equal(kept.trace[name], value) for name, value in trace.items())
    (file,) = (path for path in cache_dir().rglob(TRACE) if sha256_file(path) == first.card.trace_sha256)
    content = file.read_bytes()
    file.write_bytes(content[:-4] + b"\1\2\3\4")
    third = again()
    assert str(file.parent) in notices[0] and file.name in notices[0] and "training it again" in notices[0]
    assert all(torch.equal(third.trace[name], value) for name, value in trace.items())
    Path(file).unlink()
    assert again().trace is not None and len(notices) == 2
    assert victim_of(TRACED.model_copy(update={"prior": None})).trace is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prior": 1}, "greater than or equal to 2"),
        ({"prior": 3}, "8 targets are no multiple of the prior's 3 records"),
        ({"training": Descent()}, "a prior is for a private training from a known start"),
        ({"initialisation": "random"}, "a prior is for a private training from a known start"),
    ],
)
def test_a_prior_that_cannot_be_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        InformedSpec(**(dict(TRACED) | changes))


def test_privacy_that_cannot_be_is_named() -> None:
    for wrong, message in (
        ({"epsilon": math.inf}, "finite number"),
        ({"sampling_rate": 0}, "greater than 0"),
        ({"sampling_rate": 1}, "less than 1"),
    ):
        with pytest.raises(ValidationError, match=message):
            Privacy.model_validate(wrong)
    with pytest.raises(ValidationError, match="give their order_seed"):
        Descent(order_seed=None, privacy=Privacy(sampling_rate=0.5))


def test_a_defence_on_release_does_not_hide_a_trace() -> None:
    with pytest.raises(UserError, match=r"noise=0\.1: its trace is released too"):
        defended(TRACED, [parse("noise=0.1")])
    assert defended(TRACED, [parse("dp=3")]).training.privacy == Privacy(epsilon=3)


def test_sampled_training_is_no_gaussian_mechanism() -> None:
    sampled = TRACED.model_copy(update={"training": Descent(privacy=Privacy(sampling_rate=0.5))})
    assert gaussian_privacy(sampled) is None
    assert gaussian_privacy(TRACED) == pytest.approx(1 / noise_multiplier(Privacy()))


def test_victims_without_prior_and_sampling_have_the_descriptions_that_they_had() -> None:
    spec = registry.victims().items["digits-elu10-200-eps1e2"]
    assert "prior" not in spec.identity()
    assert set(spec.identity()["training"]["privacy"]) == {"clip", "epsilon", "delta"}
