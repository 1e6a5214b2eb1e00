"""Implicit differentiation: inverse products against the inverse, hypergradients against differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import attacks.implicit.hypergradient
from attacks.implicit.hypergradient import Hypergradient, hypergradient
from attacks.implicit.inverse import LARGEST_DAMPING, METHODS, NotPositiveError, solve
from attacks.implicit.lower import Minimum, hessian, minimise
from attacks.implicit.params import ImplicitParams
from attacks.implicit.training_problem import TrainingProblem
from victims.equations.network import Network

EXACT = ImplicitParams(inverse_tolerance=1e-9, inverse_steps=20_000, lower_tolerance=1e-11, lower_steps=2000)
TARGETS = torch.tensor([0.0, 1.0, 0.3, 1.0, 0.0], dtype=torch.float64)

every_method = pytest.mark.parametrize("method", METHODS)
every_depth = pytest.mark.parametrize("hidden", [False, True], ids=["affine", "one-hidden"])


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(hidden: bool) -> Network:
    if hidden:
        return Network((normal(6, 9) * 0.3, normal(1, 6, seed=1) * 0.5), (normal(6, seed=2) * 0.3, None))
    return Network((normal(1, 9) * 0.3,), (normal(1, seed=1) * 0.3,))


def problem(hidden: bool) -> TrainingProblem:
    return TrainingProblem(network(hidden), weight_decay=0.02, sharpness=10.0)


def positive(size: int = 12) -> Tensor:
    root = normal(size, size)
    return root @ root.T / size + 0.1 * torch.eye(size, dtype=torch.float64)


def at(
    hidden: bool, inputs: Tensor, targets: Tensor, start: Network | None = None, damping: float = 0.0, **changes: object
) -> Hypergradient:
    released = network(hidden)
    released = replace(released, weights=tuple(weight + 0.05 * weight.cos() for weight in released.weights))
    params = EXACT.model_copy(update=changes)
    return hypergradient(problem(hidden), released, start or released, inputs, targets, params, damping)


@every_method
def test_an_inverse_product_is_the_inverse(method: str) -> None:
    matrix, b = positive(), normal(12, seed=3)
    solved = solve(method, lambda v: matrix @ v, b, 1e-10, 20_000)
    torch.testing.assert_close(solved.solution, torch.linalg.solve(matrix, b), rtol=1e-7, atol=1e-8)
    assert solved.residual < 1e-8
    assert solved.damping == 0


def test_quasi_newton_takes_no_more_products_than_directions() -> None:
    """With exact line searches its steps are those of conjugate gradients, as long as its memory is right."""
    matrix, b = positive(), normal(12, seed=3)
    assert solve("quasi-newton", lambda v: matrix @ v, b, 1e-10, 13).residual < 1e-9


@every_method
def test_a_product_cut_short_says_so(method: str) -> None:
    matrix, b = positive(), normal(12, seed=3)
    solved = solve(method, lambda v: matrix @ v, b, 1e-10, 3)
    assert solved.residual == pytest.approx(float((b - matrix @ solved.solution).norm() / b.norm()), rel=1e-9)
    assert solved.residual > 1e-3


@every_method
def test_an_indefinite_hessian_is_damped(method: str) -> None:
    matrix = positive() - 0.5 * torch.eye(12, dtype=torch.float64)
    assert float(torch.linalg.eigvalsh(matrix)[0]) < 0
    b = normal(12, seed=3)
    solved = solve(method, lambda v: matrix @ v, b, 1e-8, 20_000)
    damped = matrix + solved.damping * torch.eye(12, dtype=torch.float64)
    assert solved.damping > 0
    torch.testing.assert_close(damped @ solved.solution, b, rtol=1e-6, atol=1e-6)
    assert solved.residual < 1e-7  # of the damped system: it is that one which was solved


@every_method
def test_what_no_damping_mends_is_refused(method: str) -> None:
    with pytest.raises(NotPositiveError):
        solve(method, lambda v: -10 * LARGEST_DAMPING * v, normal(12), 1e-8, 10)
    with pytest.raises(NotPositiveError):
        solve(method, lambda v: v * math.nan, normal(12), 1e-8, 10)


@every_depth
def test_hessian_products_are_those_of_the_dense_hessian(hidden: bool) -> None:
    at_hand, inputs = problem(hidden), normal(5, 9, seed=4)

    def loss(theta: Tensor) -> Tensor:
        return at_hand.loss(theta, inputs, TARGETS)

    theta = at_hand.flat(network(hidden))
    gradient, product = hessian(loss, theta)
    dense = torch.autograd.functional.hessian(loss, theta)
    v = normal(len(theta), seed=5)
    torch.testing.assert_close(product(v), dense @ v)
    torch.testing.assert_close(gradient, torch.autograd.functional.jacobian(loss, theta))


@every_depth
def test_a_network_survives_being_flat(hidden: bool) -> None:
    at_hand = problem(hidden)
    theta = at_hand.flat(network(hidden))
    torch.testing.assert_close(at_hand.flat(at_hand.unflat(theta)), theta, rtol=0, atol=0)
    inputs = normal(5, 9, seed=4)
    torch.testing.assert_close(
        replace(at_hand, sharpness=1e9).outputs(theta, inputs), network(hidden).forward(inputs, torch.relu)[:, 0]
    )


def test_the_lower_level_reaches_its_tolerance_and_says_when_it_does_not() -> None:
    at_hand, inputs = problem(True), normal(5, 9, seed=4)

    def loss(theta: Tensor) -> Tensor:
        return at_hand.loss(theta, inputs, TARGETS)

    start = at_hand.flat(network(True))
    assert minimise(loss, start, 0.02, 1e-10, 2000).relative_gradient <= 1e-10
    assert minimise(loss, start, 0.02, 1e-30, 1).relative_gradient > 1e-30


@every_method
@every_depth
@pytest.mark.parametrize("damping", [0.0, 0.05])
def test_the_hypergradient_is_that_of_central_differences(method: str, hidden: bool, damping: float) -> None:
    """Relative error under 1e-5, in images and targets; so the sign is right, which eq. (7) as printed is not."""
    inputs, direction, step = normal(5, 9, seed=4), normal(5, 9, seed=6), 1e-5
    found = at(hidden, inputs, TARGETS, inverse=method, damping=damping)

    def distance(inputs: Tensor, targets: Tensor) -> float:
        return at(hidden, inputs, targets, found.solution, damping=damping).distance

    ahead, behind = distance(inputs + step * direction, TARGETS), distance(inputs - step * direction, TARGETS)
    by_inputs = (ahead - behind) / (2 * step)
    by_targets = (distance(inputs, TARGETS + step) - distance(inputs, TARGETS - step)) / (2 * step)
    assert float((found.inputs * direction).sum()) == pytest.approx(by_inputs, rel=1e-5)
    assert float(found.targets.sum()) == pytest.approx(by_targets, rel=1e-5)
    assert abs(by_inputs) > 1e-3


@every_depth
def test_the_lower_level_begins_where_it_is_told(hidden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its own end it has next to nothing to do."""
    inputs, evaluations = normal(5, 9, seed=4), 0

    def counted(loss: Callable[[Tensor], Tensor], *args: Any) -> Minimum:
        def one_more(theta: Tensor) -> Tensor:
            nonlocal evaluations
            evaluations += 1
            return loss(theta)

        return minimise(one_more, *args)

    monkeypatch.setattr(attacks.implicit.hypergradient, "minimise", counted)
    ended = at(hidden, inputs, TARGETS, lower_tolerance=1e-9)
    cold, evaluations = evaluations, 0
    again = at(hidden, inputs, TARGETS, ended.solution, lower_tolerance=1e-6)
    assert evaluations < cold / 2, (evaluations, cold)
    torch.testing.assert_close(again.inputs, ended.inputs, rtol=1e-5, atol=1e-8)


@every_depth
@pytest.mark.parametrize("damping", [0.0, 0.05])
def test_coordinates_of_the_span_lose_nothing(hidden: bool, damping: float) -> None:
    """theta(x), solved on the span of five images in nine dimensions, is the minimum over all pixels."""
    inputs = normal(5, 9, seed=4)
    found, at_hand = at(hidden, inputs, TARGETS, damping=damping), problem(hidden)
    released = replace(network(hidden), weights=tuple(w + 0.05 * w.cos() for w in network(hidden).weights))
    star = at_hand.flat(released)

    def loss(theta: Tensor) -> Tensor:
        return at_hand.loss(theta, inputs, TARGETS) + damping / 2 * (theta - star).square().sum()

    theta = at_hand.flat(found.solution)
    gradient, _ = hessian(loss, theta)
    assert float(gradient.norm()) < 1e-9
    assert found.distance == pytest.approx(float((theta - star).square().sum()), rel=1e-9)


def test_much_damping_is_gradient_matching() -> None:
    inputs, damping = normal(5, 9, seed=4), 1e4
    released = network(True)
    released = replace(released, weights=tuple(weight + 0.05 * weight.cos() for weight in released.weights))
    at_hand = problem(True)
    gradient, _ = hessian(lambda theta: at_hand.loss(theta, inputs, TARGETS), at_hand.flat(released))
    found = at(True, inputs, TARGETS, damping=damping)
    assert found.distance == pytest.approx(float(gradient.square().sum()) / damping**2, rel=1e-3)
