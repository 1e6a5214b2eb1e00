"""Releases of the weights in the place of a start: of three, what momentum remembers is taken off."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
import torch
import torch.nn.functional as F
from attacking import context
from torch import Tensor

from attacks.unknown_start import NO_SNAPSHOTS
from attacks.unknown_start.releases import averaged, without_past
from attacks.unknown_start.stretches import BETWEEN, BETWEEN_AVERAGES, BETWEEN_THREE, stretches

LAYER, BIAS = "layers.0.weight", "layers.0.bias"
BETA, STEPS = 0.8, 4
"""Of the descent: beta, and the steps between two releases."""


def released(
    images: Tensor,
    beta: float = BETA,
    decay: float = 0.0,
    size: float = 1.0,
    lr: float = 1e-3,
    count: int = 3,
    average: float = 0.0,
) -> list[dict[str, Tensor]]:
    """Releases of a descent, float32, whose gradient at step t is a random column times row t of images (T, d).

    The last release is that after the last step, each other one STEPS before the next. With an average a moving average
    of the weights is released, which keeps this share of itself at every step.
    """
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(30, images.shape[1], generator=generator, dtype=torch.float64)
    bias, mean, mean_of_bias = torch.zeros(30).double(), torch.zeros_like(weights), torch.zeros(30).double()
    kept, averages = [], (weights, bias)
    for left, image in zip(range(len(images) - 1, -1, -1), images, strict=True):
        errors = size * torch.randn(30, generator=generator, dtype=torch.float64)
        mean = beta * mean + errors[:, None] * image + decay * weights
        mean_of_bias = beta * mean_of_bias + errors
        weights, bias = weights - lr * mean, bias - lr * mean_of_bias
        averages = weights.lerp(averages[0], average), bias.lerp(averages[1], average)
        if left % STEPS == 0 and left < count * STEPS:
            kept.append({LAYER: averages[0].float(), BIAS: averages[1].float()})
    return kept


def images(count: int = 40, pixels: int = 50) -> Tensor:
    return torch.randn(count, pixels, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def outside(rows: Tensor, span: Tensor) -> float:
    """The share of the length of rows (h, d) that lies outside a span of rows."""
    basis = torch.linalg.qr(span.T).Q
    return float((rows - rows @ basis @ basis.T).norm() / rows.norm())


@pytest.mark.parametrize("beta", [0.5, 0.8, 0.9])
def test_of_three_releases_the_gradients_before_them_go_and_the_rest_stay(beta: float) -> None:
    seen = images()
    first, second, last = released(seen, beta)
    before, (gamma,) = without_past([first, second, last])
    assert before is not None
    assert gamma == pytest.approx(beta**STEPS, abs=1e-4)
    rows = (before[LAYER] - last[LAYER]).double()
    between = seen[1 - 2 * STEPS :]  # of the 2 B - 1 steps after the first that follows the first release
    assert outside(rows, between) < 5e-3
    assert min(outside(rows, between[[k for k in range(len(between)) if k != one]]) for one in range(7)) > 0.02
    assert outside((last[LAYER] - second[LAYER]).double(), between) > 3 * outside(rows, between)


def test_the_step_is_along_the_gradients_in_every_parameter_and_against_the_descent() -> None:
    first, second, last = released(images())
    before, (gamma,) = without_past([first, second, last])
    assert before is not None
    steps = {key: gamma * (second[key] - first[key]) - (last[key] - second[key]) for key in last}
    lengths = [float(((before[key] - last[key]) / steps[key]).median()) for key in (LAYER, BIAS)]
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-2)
    assert min(lengths) > 0
    assert float((before[LAYER] - last[LAYER]).norm() / last[LAYER].norm()) == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize("size", [1.0, 0.1, 0.01])
@pytest.mark.parametrize("decay", [1e-3, 1e-2, 0.1])
def test_decay_is_taken_off_though_it_may_move_a_layer_more_than_gradients(decay: float, size: float) -> None:
    """What decay adds is nearly the same each time: gamma alone would come to 1, which cancels it and no momentum."""
    first, second, last = released(images(), decay=decay, size=size)
    before, (gamma,) = without_past([first, second, last])
    assert gamma == pytest.approx(BETA**STEPS, abs=1e-3)
    assert before is not None
    assert outside((before[LAYER] - last[LAYER]).double(), images()[1 - 2 * STEPS :]) < 0.05


def test_running_statistics_are_those_of_the_last_release() -> None:
    first, second, last = released(images())
    for one, variance in ((first, 5.0), (second, 3.0), (last, 1.0)):
        one["norms.0.running_var"], one["norms.0.num_batches_tracked"] = torch.tensor([variance]), torch.tensor(7)
    before, _ = without_past([first, second, last])
    assert before is not None
    assert (float(before["norms.0.running_var"]), int(before["norms.0.num_batches_tracked"])) == (1.0, 7)


def test_without_momentum_next_to_nothing_is_taken_off() -> None:
    _, (gamma,) = without_past(released(images(), beta=0.0))
    assert gamma < 5e-3


@pytest.mark.parametrize("pixels", [20, 50])
def test_where_there_are_fewer_pixels_than_neurons_the_columns_tell(pixels: int) -> None:
    _, (gamma,) = without_past(released(images(pixels=pixels)))
    assert gamma == pytest.approx(BETA**STEPS, abs=5e-3)


def test_a_layer_that_stayed_at_last_has_no_step_and_of_one_that_stayed_before_nothing_is_taken_off() -> None:
    first, second, last = released(images())
    assert without_past([first, last, {**second, LAYER: last[LAYER].clone()}]) == (None, (0.0,))
    before, (gamma,) = without_past([second, {**first, LAYER: second[LAYER].clone()}, last])
    assert gamma == 0
    assert before is not None
    steps = [F.normalize((one - last[LAYER]).flatten(), dim=0) for one in (before[LAYER], second[LAYER])]
    torch.testing.assert_close(*steps, atol=1e-4, rtol=0)
    assert without_past([{BIAS: one[BIAS]} for one in (first, second, last)]) == (None, (0.0,))


def test_each_three_that_follow_one_another_make_a_stretch() -> None:
    releases = released(images(), count=4)
    first, _, third, last = releases
    (stretch,) = stretches(view(first, last), context(), "snapshots", 0)
    assert (stretch.begun, stretch.ended, stretch.flags) == (first, last, (BETWEEN,))
    one, two = stretches(view(*releases), context(), "snapshots", 0)
    assert one.ended is third
    assert two.ended is last
    for found, few in ((one, releases[:3]), (two, releases[1:])):
        assert found.begun is not None
        torch.testing.assert_close(found.begun[LAYER], (without_past(few)[0] or {})[LAYER])
        assert found.flags[0].startswith(f"{BETWEEN_THREE}: 0.4")


@pytest.mark.parametrize(("beta", "average"), [(0.8, 0.9), (0.9, 0.9), (0.9, 0.5), (0.5, 0.9)])
def test_of_four_averages_the_gradients_before_them_go_and_the_rest_stay(beta: float, average: float) -> None:
    releases = released(seen := images(), beta, count=4, average=average)
    before, shares = without_past(releases)
    assert before is not None
    alpha, gamma = average**STEPS, beta**STEPS
    assert shares == pytest.approx((alpha + gamma, -alpha * gamma), abs=1e-3)
    rows, between = (before[LAYER] - releases[-1][LAYER]).double(), seen[2 - 3 * STEPS :]  # 3 B - 2 steps
    assert outside(rows, between) < 5e-3
    assert outside(rows, between[1:]) > 2 * outside(rows, between)
    of_three = (without_past(releases[1:])[0] or {})[LAYER]
    assert outside((of_three - releases[-1][LAYER]).double(), between) > 3 * outside(rows, between)


def test_of_five_averages_each_four_make_a_stretch() -> None:
    releases = released(images(), count=5, average=0.9)
    one, two = stretches(view(*releases), context(), "snapshots", 0)
    assert [one.ended is releases[3], two.ended is releases[4]] == [True, True]
    for found, few in ((one, releases[:4]), (two, releases[1:])):
        assert found.begun is not None
        torch.testing.assert_close(found.begun[LAYER], (without_past(few)[0] or {})[LAYER])
        assert found.flags[0].startswith(BETWEEN_AVERAGES)


def test_the_last_four_tell_whether_all_are_averages() -> None:
    _, second, *rest = released(images(), count=5, average=0.9)
    found = stretches(view(second, second, *rest), context(), "snapshots", 0)
    assert [one.flags[0].startswith(BETWEEN_AVERAGES) for one in found] == [True, True]


@pytest.mark.parametrize(
    ("beta", "average", "twice"),
    [(0.8, 0.9, True), (0.9, 0.5, True), (0.5, 0.75, False), (0.8, 0.0, False), (0.0, 0.9, False)],
)
def test_what_remembers_once_is_no_average_of_what_remembers(beta: float, average: float, twice: bool) -> None:
    """Averages of weights that descend without momentum are told from three, as momentum is.

    alpha times gamma is .041 of the second pair, and .0198 of the third, which forgets nearly all.
    """
    assert averaged(released(images(), beta, count=4, average=average)) == twice


@pytest.mark.parametrize(("decay", "size"), [(1e-3, 1.0), (1e-3, 0.1), (1e-2, 1.0), (1e-2, 0.1), (0.1, 1.0)])
def test_plain_weights_that_decay_are_no_averages(decay: float, size: float) -> None:
    assert not averaged(released(images(), decay=decay, size=size, count=4))


@pytest.mark.parametrize("beta", [0.0, 0.8, 0.9])
@pytest.mark.parametrize("count", [1, 5, 10])
def test_plain_weights_that_few_images_moved_are_no_averages(count: int, beta: float) -> None:
    """Beside their span there is rounding alone, which adds up to less where two differences are added."""
    assert not averaged(released(images(count).repeat(40 // count, 1), beta, count=4))


def test_of_releases_that_stayed_once_or_have_no_such_layer_three_are_taken() -> None:
    releases = released(images(), count=4, average=0.9)
    assert averaged(releases)
    assert not averaged([releases[0], releases[0], *releases[2:]])
    assert not averaged([{BIAS: one[BIAS]} for one in releases])


def test_a_layer_that_stayed_leaves_the_former_release_for_the_start() -> None:
    last = released(images())[2]
    one, two = ({**last, BIAS: last[BIAS] + shift} for shift in (1, 2))
    (stretch,) = stretches(view(one, two, last), context(), "snapshots", 0)
    assert stretch.begun is two
    assert stretch.flags == (BETWEEN,)


def test_one_release_tells_nothing() -> None:
    for few in ((), released(images())[:1]):
        with pytest.raises(ValueError, match=NO_SNAPSHOTS):
            stretches(view(*few), context(), "snapshots", 0)


def view(*releases: dict[str, Tensor]) -> Any:
    return Mock(snapshots=releases)
