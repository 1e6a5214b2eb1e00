"""Differential privacy: the accounting, the sensitivity that it rests on, and the clipped and noised descent."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent, NeighboringRelation, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from pydantic import ValidationError

from bench.experiments import rero
from victims.informed.cache import obtain
from victims.informed.glm import fit, targets_of
from victims.informed.networks import forward, initial
from victims.informed.privacy import gaussian_privacy, noise_multiplier, sensitivity
from victims.informed.private_descent import clipped_sum
from victims.informed.spec import (
    DenseSpec,
    Descent,
    Family,
    GLMArchitecture,
    GLMSpec,
    InformedSpec,
    Newton,
    OutputPrivacy,
    SmallCNNSpec,
)
from victims.informed.training import train_many
from victims.recipes import Privacy

CPU = torch.device("cpu")
DENSE = DenseSpec(hidden=(6, 5), outputs=3)


def points(count: int, shape: tuple[int, int, int], seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    own = torch.Generator().manual_seed(seed)
    return torch.rand(count, *shape, generator=own), torch.randint(3, (count,), generator=own)


def test_the_noise_is_what_another_accountant_asks_for() -> None:
    for steps in (1, 100):
        accountant = PLDAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
        multiplier = noise_multiplier(Privacy(epsilon=3, delta=1e-5), steps)
        accountant.compose(SelfComposedDpEvent(GaussianDpEvent(multiplier), steps))
        assert accountant.get_epsilon(1e-5) == pytest.approx(3, rel=1e-3)


@pytest.mark.parametrize(("architecture", "shape"), [(DENSE, (1, 4, 4)), (SmallCNNSpec(outputs=3), (1, 12, 12))])
@pytest.mark.parametrize("clip", [0.5, 1e6])
def test_each_gradient_is_clipped_alone(
    architecture: DenseSpec | SmallCNNSpec, shape: tuple[int, int, int], clip: float
) -> None:
    images, labels = points(7, shape)
    network = initial(architecture, shape, torch.Generator().manual_seed(1))
    summed = clipped_sum(architecture, clip, network, images, labels)
    expected = {name: torch.zeros_like(value) for name, value in network.items()}
    clipped = 0
    for image, label in zip(images, labels, strict=True):
        leaves = {name: value.clone().requires_grad_() for name, value in network.items()}
        torch.nn.functional.cross_entropy(forward(architecture, leaves, image[None]), label[None]).backward()
        gradients = {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
        size = math.sqrt(sum(float(value.square().sum()) for value in gradients.values()))
        clipped += size > clip
        for name, value in gradients.items():
            expected[name] += value * min(1, clip / size)
    assert clipped == (7 if clip < 1 else 0)
    for name, value in expected.items():
        torch.testing.assert_close(summed[name], value, rtol=1e-4, atol=1e-6)


def test_without_noise_and_clipping_it_is_plain_descent() -> None:
    fixed, extra = points(12, (1, 4, 4)), points(3, (1, 4, 4), seed=1)
    start = initial(DENSE, (1, 4, 4), torch.Generator().manual_seed(0))
    loose = Descent(epochs=20, privacy=Privacy(clip=100, epsilon=1e12))
    private = train_many(DENSE, loose, fixed, extra, start, [1, 2, 3], CPU)
    plain = train_many(DENSE, Descent(epochs=20), fixed, extra, start, [1, 2, 3], CPU)
    for name, value in plain.items():
        assert float((private[name] - value).norm() / value.norm()) < 0.05


def test_the_noise_has_its_size_and_is_each_models_own() -> None:
    """One step of a learning rate so small that nothing but noise differs from the start."""
    fixed, extra = points(9, (1, 4, 4)), points(40, (1, 4, 4), seed=1)
    start = initial(DENSE, (1, 4, 4), torch.Generator().manual_seed(0))
    training = Descent(lr=1, momentum=0, epochs=1, privacy=Privacy(clip=1e-3, epsilon=1))
    trained = train_many(DENSE, training, fixed, extra, start, list(range(40)), CPU)
    moved = torch.cat([(trained[name] - start[name]).flatten(1) for name in start], dim=1) * 10  # n + 1 records
    noise = moved - moved.mean(0)
    assert float(noise.std()) == pytest.approx(1e-3 * noise_multiplier(training.privacy, 1), rel=0.05)  # type: ignore[arg-type]
    assert float(torch.corrcoef(noise)[0, 1:].abs().max()) < 0.4
    again = train_many(DENSE, training, fixed, (extra[0][3:5], extra[1][3:5]), start, [3, 4], CPU)
    assert all(torch.allclose(again[name], trained[name][3:5], atol=1e-7) for name in start)


@pytest.mark.parametrize("family", [family for family in get_args(Family) if family != "poisson"])
@pytest.mark.parametrize("penalty", [0.1, 1.0, 30.0])
def test_no_record_moves_the_optimum_further_than_the_sensitivity(family: Family, penalty: float) -> None:
    random = np.random.default_rng(0)
    outputs = 3 if family == "multinomial" else 1
    architecture = GLMArchitecture(family=family, intercept="penalised", outputs=outputs)
    bound = sensitivity(architecture, penalty, OutputPrivacy(), 13, 2)
    largest = 0.0
    for _ in range(30):
        records, labels = random.integers(0, 2, (13, 2)).astype(float), random.integers(0, max(outputs, 2), 13)
        targets = targets_of(family, labels, outputs)
        with_it, without = (fit(architecture, penalty, records[k:], targets[k:]) for k in (0, 1))
        moved = np.append(with_it.coef - without.coef, with_it.intercept - without.intercept)
        largest = max(largest, float(np.linalg.norm(moved)))
    assert 0.01 * bound < largest <= bound


def test_a_record_of_several_classes_moves_the_optimum_by_more_than_its_length() -> None:
    """One vote against 4000 on one feature: its other features have all of its gradient, and no other record's pull.

    The 4000 make the record's probabilities (1, 0, 0) where its label is (0, 1, 0): a gradient of sqrt(2) ||x||. So it
    moves the optimum by 0.92 of the sensitivity; without the root of two that would be 1.30 of it.
    """
    architecture = GLMArchitecture(family="multinomial", intercept="none", outputs=3)
    records, labels = np.zeros((4001, 8)), np.zeros(4001, dtype=np.int64)
    records[0], records[1:, 0], labels[0] = 1, 1, 1
    targets = targets_of("multinomial", labels, 3)
    with_it, without = (fit(architecture, 30.0, records[k:], targets[k:]) for k in (0, 1))
    bound = sensitivity(architecture, 30.0, OutputPrivacy(), 4001, 8)
    assert 0.85 * bound < float(np.linalg.norm(with_it.coef - without.coef)) <= bound


def test_no_attack_passes_the_bound_and_the_best_comes_near() -> None:
    """Ten records are equally likely; the adversary knows them, and takes the likeliest given the noisy parameters."""
    random = np.random.default_rng(1)
    architecture, penalty, tries = GLMArchitecture(intercept="penalised"), 2.0, 400
    known, labels = random.random((30, 5)), random.integers(0, 2, 31)
    secrets = random.integers(0, 2, (10, 5)).astype(float)
    models = []
    for secret in secrets:
        model = fit(architecture, penalty, np.vstack([known, secret]), labels[:, None].astype(float))
        models.append(np.append(model.coef, model.intercept))
    optima = np.array(models)
    for epsilon in (1.0, 10.0, 100.0, 1e4):
        privacy = OutputPrivacy(epsilon=epsilon)
        multiplier = noise_multiplier(privacy)
        deviation = multiplier * sensitivity(architecture, penalty, privacy, 31, 5)
        drawn = random.integers(0, 10, tries)
        released = optima[drawn] + deviation * random.normal(size=(tries, optima.shape[1]))
        guess = ((released[:, None] - optima) ** 2).sum(2).argmin(1)
        success = float((guess == drawn).mean())
        kappa = rero.kappa_sample(secrets, 0.4)
        bound = rero.gaussian(kappa, 1 / multiplier)
        assert success <= bound + 3 * math.sqrt(bound * (1 - bound) / tries) + 1e-9
        if epsilon == 1e4:
            assert success > 0.9


def test_a_victims_privacy_is_on_its_card() -> None:
    architecture = GLMArchitecture(intercept="penalised")
    training = Newton(strength=10, convention="half-lambda", privacy=OutputPrivacy(epsilon=2))
    spec = GLMSpec(name="cancer-x", dataset="cancer", n=60, targets=4, architecture=architecture, training=training)
    victim = obtain(spec, None, CPU, lambda done, total: None, lambda line: None)
    exact_spec = spec.model_copy(update={"training": training.model_copy(update={"privacy": None})})
    exact = obtain(exact_spec, None, CPU, lambda done, total: None, lambda line: None)
    assert victim.card.gaussian_privacy == pytest.approx(1 / noise_multiplier(OutputPrivacy(epsilon=2)))
    assert gaussian_privacy(exact_spec) is None and exact.card.gaussian_privacy is None
    off = (victim.weights["coef"] - exact.weights["coef"]).std()
    expected = sensitivity(architecture, 10, OutputPrivacy(), 61, 30) * noise_multiplier(OutputPrivacy(epsilon=2))
    assert float(off) == pytest.approx(expected, rel=0.3)


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"epsilon": -1}, {"delta": 0}, {"delta": 1}, {"clip": 0}])
def test_privacy_parameters_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=r"greater than 0|less than 1"):
        Privacy.model_validate(wrong)


def test_what_cannot_be_private_is_named() -> None:
    with pytest.raises(ValidationError, match="no batch size and no Adam"):
        Descent(batch_size=10, privacy=Privacy())
    training = Newton(privacy=OutputPrivacy())
    with pytest.raises(ValidationError, match="noise needs a regulariser on all of it"):
        GLMSpec(name="x", dataset="cancer", n=9, training=training)
    penalised = GLMArchitecture(family="linear", intercept="penalised")
    spec = GLMSpec(name="x", dataset="diabetes", n=9, targets=2, architecture=penalised, training=training)
    with pytest.raises(Exception, match="a label exceeds its label_bound of 1"):
        obtain(spec, None, CPU, lambda done, total: None, lambda line: None)
    network = InformedSpec(name="x", dataset="digits", n=9, training=Descent(privacy=Privacy(epsilon=5)))
    assert gaussian_privacy(network) == pytest.approx(1 / noise_multiplier(Privacy(epsilon=5)))
