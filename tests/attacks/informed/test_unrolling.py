"""Differentiating through training: right to the last digit, and right enough to find the record."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attacking import attacked, digits_network, victim_of

from attacks.base import Knowledge
from attacks.informed import classes
from attacks.informed.classes import Probes, rank_classes
from attacks.informed.unrolling import Unrolled, search
from attacks.unroll import Unroll, UnrollParams
from victims.informed.descent import Problem
from victims.informed.networks import initial
from victims.informed.spec import DenseSpec, Descent, SmallCNNSpec

TINY = digits_network(n=40, targets=2, epochs=8)
DENSE = DenseSpec(hidden=(4,), outputs=3)
CASES = {
    "gd": (DENSE, Descent(epochs=5), 4),
    "mini-batches": (DENSE, Descent(epochs=3, batch_size=5), 4),
    "secret order": (DENSE, Descent(epochs=3, batch_size=5, order_seed=None), 4),
    "adam": (DENSE, Descent(epochs=4, optimizer="adam", lr=0.01), 4),
    "cnn": (SmallCNNSpec(outputs=3), Descent(epochs=2), 12),
}


@pytest.mark.parametrize(("spec", "training", "side"), CASES.values(), ids=CASES)
def test_the_gradient_is_that_of_finite_differences(
    spec: DenseSpec | SmallCNNSpec, training: Descent, side: int
) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(11, 1, side, side, generator=generator, dtype=torch.float64)
    labels = torch.arange(11) % 3
    start = {name: value.double() for name, value in initial(spec, (1, side, side), generator).items()}
    problem = Problem(spec, training, images[:9], labels[:9])
    unrolled = Unrolled(problem, start, problem.orders([torch.Generator().manual_seed(seed) for seed in (1, 2)]))
    stacked = {name: value.expand(2, *value.shape) for name, value in start.items()}
    released = {name: value + 0.01 for name, value in stacked.items()}
    targets = problem.one_hot(labels[9:])
    distance, gradient = unrolled.distance(images[9:], targets, released)
    trained = problem.run(stacked, unrolled.orders, images[9:], targets)
    expected = sum((trained[name] - released[name]).square().flatten(1).sum(1) for name in trained)
    torch.testing.assert_close(distance, expected)

    for model in range(2):
        direction = torch.randn(1, side, side, generator=generator, dtype=torch.float64)
        ends = []
        for step in (1e-6, -1e-6):
            moved = images[9:].clone()
            moved[model] += step * direction
            ends.append(unrolled.distance(moved, targets, released)[0])
        slopes = (ends[0] - ends[1]) / 2e-6
        assert slopes[model].item() == pytest.approx((gradient[model] * direction).sum().item(), rel=1e-5)
        assert slopes[1 - model].item() == 0  # each model sees its own record alone


def test_the_search_finds_the_record_that_the_weights_hold() -> None:
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.rand(31, 1, 5, 5, generator=generator, dtype=torch.float64), torch.arange(31) % 3
    start = {name: value.double() for name, value in initial(DENSE, (1, 5, 5), generator).items()}
    problem = Problem(DENSE, Descent(epochs=8), images[:30], labels[:30])
    unrolled = Unrolled(problem, start, None)
    truth, targets = images[30:].expand(2, -1, -1, -1), problem.one_hot(labels[[30, 30]])
    stacked = {name: value.expand(2, *value.shape) for name, value in start.items()}
    released = problem.run(stacked, None, truth, targets)
    begin = images[:30].mean(0).expand_as(truth)
    found = search(unrolled, begin, problem.one_hot(labels[[30, 29]]), released, 80)
    assert (found.images[0] - images[30]).abs().max() < 1e-3
    assert found.distances[0] < 1e-10
    assert found.distances[1] > 100 * found.distances[0]  # no record of the wrong class leads there
    alone = search(unrolled, begin[:1], targets[:1], {name: value[:1] for name, value in released.items()}, 80)
    torch.testing.assert_close(alone.images[0], found.images[0], rtol=0, atol=1e-4)


def test_the_last_batch_may_hold_one_record() -> None:
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.rand(11, 1, 4, 4, generator=generator, dtype=torch.float64), torch.arange(11) % 3
    start = {name: value.double() for name, value in initial(DENSE, (1, 4, 4), generator).items()}
    problem = Problem(DENSE, Descent(epochs=3, batch_size=5), images[:10], labels[:10])
    unrolled = Unrolled(problem, start, problem.orders([]))
    targets = problem.one_hot(labels[10:])
    stacked = {name: value[None] for name, value in start.items()}
    released = problem.run(stacked, unrolled.orders, images[10:], targets)
    assert not any(value.requires_grad for value in released.values())
    found = search(unrolled, images[:1], targets, released, 3)
    assert found.distances[0] < unrolled.distance(images[:1], targets, released)[0][0]


def test_adam_has_a_gradient_where_a_pixel_is_0_in_every_record() -> None:
    """The weights of such a pixel have gradient 0, where Adam's square root has no derivative."""
    generator, alive = torch.Generator().manual_seed(0), torch.arange(16).view(1, 4, 4) % 4 > 0
    images, labels = torch.rand(11, 1, 4, 4, generator=generator, dtype=torch.float64) * alive, torch.arange(11) % 3
    start = {name: value.double() for name, value in initial(DENSE, (1, 4, 4), generator).items()}
    unrolled = Unrolled(
        Problem(DENSE, Descent(epochs=4, optimizer="adam", lr=0.01), images[:9], labels[:9]), start, None
    )
    targets = unrolled.problem.one_hot(labels[9:])
    released = {name: value.expand(2, *value.shape) for name, value in start.items()}
    _, gradient = unrolled.distance(images[9:], targets, released)
    direction, step = torch.randn(1, 4, 4, generator=generator, dtype=torch.float64) * alive, 1e-6
    ends = [unrolled.distance(images[9:] + by * direction, targets, released)[0] for by in (step, -step)]
    torch.testing.assert_close(
        (ends[0] - ends[1]) / (2 * step), (gradient * direction).sum((1, 2, 3)), rtol=1e-5, atol=0
    )


def test_pixels_that_are_0_in_every_record_do_not_lead_a_search_through_adam_astray() -> None:
    adam = {"name": "digits-elu5-40-adam", "training": Descent(epochs=15, optimizer="adam", lr=0.005)}
    victim = victim_of(digits_network(n=40, targets=4, epochs=15, hidden=5).model_copy(update=adam))
    everything = [victim.split.known.images, victim.split.targets.images]
    assert sum(torch.from_numpy(part).flatten(1).sum(0) for part in everything).eq(0).sum() > 2
    attack = Unroll(UnrollParams(evaluations=60, labels=1, trial=1, hardest=1, retries=2))
    assert attacked(attack, victim).flags[-1] in [
        f"released weights reached for {most} of 4 targets" for most in (3, 4)
    ]


def test_classes_are_ranked_by_the_direction_of_the_change() -> None:
    probed = torch.tensor([[5.0, 1], [6, 0], [5, -1], [4, 0], [5, 0]])
    released = torch.tensor([[7.0, 0.1], [5, -0.5]])
    ranking, moved = rank_classes(released, probed, torch.tensor([0, 1, 2, 3, 3]), 5)
    assert ranking[:, 0].tolist() == [1, 2]
    assert ranking[:, -1].tolist() == [4, 4]  # no probe is of class 4
    torch.testing.assert_close(moved, torch.tensor([4.01, 0.25]))


def test_probes_are_the_mean_and_the_hardest_records_of_every_class() -> None:
    images = torch.rand(6, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    spec = DenseSpec(hidden=(), outputs=3)
    model = {"layers.0.weight": torch.zeros(3, 4), "layers.0.bias": torch.zeros(3)}
    model["layers.0.weight"][0, 0] = 1.0  # the larger the first pixel, the surer of class 0
    probes = Probes.of(spec, model, images, labels, hardest=1)
    assert probes.labels.tolist() == [0, 0, 1, 1]
    torch.testing.assert_close(probes.images[0], images[:3].mean(0))
    first = images[:, 0, 0, 0]
    assert torch.equal(probes.images[1], images[first[:3].argmin()])
    assert torch.equal(probes.images[3], images[3 + first[3:].argmax()])
    torch.testing.assert_close(probes.means[2], images.mean(0))


def test_it_reconstructs_digits_and_says_what_it_had_to_guess() -> None:
    errors = {}
    for name, spec in {"known": TINY, "random": TINY.model_copy(update={"initialisation": "random"})}.items():
        victim = victim_of(spec)
        attack = Unroll(UnrollParams(evaluations=30 if name == "known" else 2, labels=1, trial=1, hardest=1, retries=9))
        assert Knowledge.SHADOW_POOL not in attack.knowledge
        found = attacked(attack, victim)
        errors[name] = (found.candidates - torch.from_numpy(victim.split.targets.images)).square().mean()
        reached = "2 of 2" if name == "known" else "0 of 2"
        assert found.flags[-1] == f"released weights reached for {reached} targets"
        assert len(found.flags) == (1 if name == "known" else 2)
    assert errors["known"] < 1e-3
    assert errors["random"] > 0.02


def test_a_wrong_class_is_given_up_as_it_does_not_lead_to_the_released_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def third(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        ranking, moved = rank_classes(*arguments)
        return ranking.roll(2, 1), moved

    monkeypatch.setattr(classes, "rank_classes", third)
    victim = victim_of(TINY)
    found = {}
    for retries in (0, 2):
        attack = Unroll(UnrollParams(evaluations=30, labels=1, trial=1, hardest=1, retries=retries))
        found[retries] = attacked(attack, victim)
    truth = torch.from_numpy(victim.split.targets.labels)
    assert not bool((found[0].labels == truth).any())
    assert torch.equal(found[2].labels, truth)
    assert found[2].confidence.min() > found[0].confidence.max()
