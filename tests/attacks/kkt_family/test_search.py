"""The solver against a KKT point that is known exactly."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attacks.kkt_family.coefficients import Coefficients, margin_coefficients
from attacks.kkt_family.params import SearchParams
from attacks.kkt_family.problem import Problem
from attacks.kkt_family.published import published_search
from attacks.kkt_family.search import Start, StationaryPoint, _term_bound, coordinates_of, search
from victims.equations.adjoint import StationarityResidual
from victims.equations.network import Network
from victims.equations.row_space import RowSpace

D, H = 6, 40
PARAMS = SearchParams(
    steps=800,
    lr=0.05,
    lambda_lr=0.02,
    alpha=50.0,
    layer_weights=(1.0, 1.0),
    coordinate_power=0.0,
    residual_power=0.0,
    neuron_power=0.0,
)


def changed(**values: float) -> SearchParams:
    return SearchParams(**PARAMS.model_dump() | values)


def two_point_problem() -> tuple[Network, Tensor, Tensor]:
    """A one-hidden-layer network that satisfies theta = sum_i lambda_i grad Phi(x_i) for two points of one class.

    Half of the neurons answer to x_1 alone, half to x_2 alone: w_j = lambda_i v_j x_i, b_j = lambda_i v_j and
    v_j = lambda_i relu(w_j x_i + b_j), which holds exactly when lambda_i^2 (||x_i||^2 + 1) = 1. The points have
    x_1 x_2 + 1 < 0, so each one's neurons are shut for the other. (With opposite labels the solution would not be
    unique: candidates on the kink of the other's neurons can trade weight with each other.)
    """
    generator = torch.Generator().manual_seed(0)
    basis, _ = torch.linalg.qr(torch.randn(D, 2, generator=generator, dtype=torch.float64))
    points = basis.T * torch.tensor([[2.0], [1.6]], dtype=torch.float64)
    points[1] = points[1] - 0.9 * points[0]
    multipliers = 1 / (points.square().sum(1) + 1).sqrt()
    output = torch.rand(H, generator=generator, dtype=torch.float64) + 0.5
    owner = torch.arange(H) % 2
    weight = (multipliers[owner] * output)[:, None] * points[owner]
    return Network((weight, output[None]), (multipliers[owner] * output, None)), points, multipliers


def positive_coefficients(generator: torch.Generator) -> Coefficients:
    """Multipliers of two candidates of class 1, from a random start."""
    start = (0.5 + torch.rand(2, generator=generator, dtype=torch.float64)) / 2
    return margin_coefficients(torch.ones(2, dtype=torch.long), start)


def everywhere(network: Network) -> Problem:
    """The problem of finding the points in all of their space."""
    return Problem(network, RowSpace(torch.eye(D, dtype=torch.float64), torch.ones(D, dtype=torch.float64), gap=False))


def random_start(seed: int) -> Start:
    generator = torch.Generator().manual_seed(seed)
    coefficients = positive_coefficients(generator)
    return Start(0.3 * torch.randn(2, D, generator=generator), coefficients)


def silent(step: int, candidates: Tensor) -> None:
    """Tell nobody."""


def match(candidates: Tensor, points: Tensor) -> Tensor:
    """Return the candidates' order that fits the points: which candidate finds which point is chance."""
    return torch.cdist(points, candidates).argmin(1)


def test_the_planted_point_is_a_kkt_point() -> None:
    network, points, multipliers = two_point_problem()
    parameters = [network.weights[0], network.biases[0], network.weights[1]]
    variables = [p.clone().requires_grad_() for p in parameters if p is not None]
    weight, bias, out = variables
    output = torch.relu(points @ weight.T + bias) @ out[0]
    gradient = torch.autograd.grad((multipliers * output).sum(), variables)
    for value, expected in zip(variables, gradient, strict=True):
        torch.testing.assert_close(value.detach(), expected)


def test_two_points_are_recovered_exactly() -> None:
    """Of five starts the one with the smallest residual is exact; others may put both candidates on one point.

    The steps are enough to get from any start that leads there to 1e-11, a hundred times nearer than is asked.
    """
    network, points, multipliers = two_point_problem()
    problem, starts = everywhere(network), [random_start(seed) for seed in range(5)]
    ended = search(problem, starts, changed(steps=4000), silent)
    tried = [
        (problem.relative_residual(found.candidates, start.coefficients.at), found)
        for found, start in zip(ended, starts, strict=True)
    ]
    residual, found = min(tried, key=lambda one: one[0])
    assert residual < 1e-9
    order = match(found.candidates, points)
    torch.testing.assert_close(found.candidates[order], points, rtol=0, atol=1e-9)
    torch.testing.assert_close(found.sizes[order], multipliers, rtol=0, atol=1e-9)


def test_of_many_candidates_the_atomic_norm_leaves_those_that_are_needed() -> None:
    """Twelve candidates make up the weights of two points in many ways; with a price few of them carry weight.

    Three of four starts lead there, the others to a residual that is larger: the best of four is looked at.
    """
    network, points, _ = two_point_problem()
    problem = everywhere(network)

    def start(seed: int) -> Start:
        drawn = torch.randn(12, D, generator=torch.Generator().manual_seed(seed))
        sizes = torch.full((12,), 1 / 12, dtype=torch.float64)
        return Start(drawn, margin_coefficients(torch.ones(12, dtype=torch.long), sizes))

    def largest(sparsity: float, steps: int) -> tuple[int, Tensor]:
        starts = [start(seed) for seed in range(4)]
        ended = search(problem, starts, changed(sparsity=sparsity, steps=steps), silent)
        pairs = zip(ended, starts, strict=True)
        left = [problem.relative_residual(one.candidates, begun.coefficients.at) for one, begun in pairs]
        found = ended[left.index(min(left))]
        terms = found.sizes * found.candidates.norm(dim=1)
        return int((terms > 0.05 * terms.sum()).sum()), found.candidates[terms.argsort(descending=True)[:2]]

    free, _ = largest(0.0, 1000)
    few, candidates = largest(0.02, 4000)
    assert few < free
    cosines = torch.nn.functional.normalize(points, dim=1) @ torch.nn.functional.normalize(candidates, dim=1).T
    assert float(cosines.amax(1).min()) > 1 - 1e-9


def test_offsets_hold_points_that_lie_on_a_kink() -> None:
    """A quarter of the neurons has x_1 on its kink, with a gate of g there, which no point has without an offset.

    Their w_j is v_j (lambda_1 g x_1 + lambda_2 x_2), and w_j x_1 + b_j = 0 for the g below.
    """
    network, points, multipliers = two_point_problem()
    assert network.biases[0] is not None
    gate = -multipliers.prod() * (points[0] @ points[1] + 1)
    assert 0.2 < gate < 0.8
    added = (torch.arange(H) % 4 == 1) * gate * multipliers[0] * network.weights[1][0]
    weight, bias = network.weights[0] + added[:, None] * points[0], network.biases[0] + added
    torch.testing.assert_close((weight @ points[0] + bias)[1::4], torch.zeros(H // 4, dtype=torch.float64))
    problem = everywhere(Network((weight, network.weights[1]), (bias, None)))

    def moved(offset_price: float) -> float:
        start = Start(points.clone(), margin_coefficients(torch.ones(2, dtype=torch.long), multipliers))
        params = changed(layer_weights=(1.0, 0.0), offset_price=offset_price, steps=2000)
        (found,) = search(problem, [start], params, silent)
        return float((found.candidates - points).norm(dim=1).max())

    assert moved(1e-9) < 1e-3
    assert moved(0.0) > 5e-3


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_no_term_has_more_of_the_weights_than_its_price_says(scale: float) -> None:
    """||D_i x_i|| / ||W1|| <= sqrt(r) _term_bound |c_i| ||x_i||, equal for a neuron's term when every gate is open."""
    network, points, multipliers = two_point_problem()
    scaled = Network(tuple(scale * weight for weight in network.weights), network.biases)
    problem, first, last = everywhere(scaled), scaled.weights[0], scaled.weights[1]
    gates = (points @ first.T + scaled.biases[0] > 0).double()
    terms = multipliers * (gates * last).norm(dim=1) * points.norm(dim=1) / first.norm()
    bounds = math.sqrt(D) * _term_bound(problem) * multipliers * points.norm(dim=1)
    assert bool((terms <= bounds).all())
    everyone = (last.norm() / first.norm()) * multipliers * points.norm(dim=1)
    torch.testing.assert_close(bounds, everyone)


@pytest.mark.parametrize("steps", [1, 5, 9])
def test_a_search_too_short_for_a_warm_up_still_runs(steps: int) -> None:
    """OneCycleLR divides by the length of its warm-up, which rounds to nothing in a handful of steps."""
    network, _, _ = two_point_problem()
    reported: list[int] = []
    params = changed(steps=steps)
    (found,) = search(everywhere(network), [random_start(0)], params, lambda step, _: reported.append(step))
    assert bool(found.candidates.isfinite().all())
    assert reported[-1] == steps


@pytest.mark.parametrize("parts", [False, True])
def test_searches_in_one_batch_end_as_they_would_alone(parts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if parts:
        monkeypatch.setattr(StationarityResidual, "_gradient", out_of_memory(lambda residual: residual.parts > 1))
    network, _, _ = two_point_problem()
    params = changed(steps=50, coordinate_power=0.5, residual_power=0.3, neuron_power=1.0, sparsity=0.02)

    def ends(*seeds: int) -> list[StationaryPoint]:
        return search(everywhere(network), [random_start(seed) for seed in seeds], params, silent)

    for seed, found in enumerate(ends(0, 1, 2)):
        (alone,) = ends(seed)
        torch.testing.assert_close(found.candidates, alone.candidates)
        torch.testing.assert_close(found.sizes, alone.sizes)


def test_a_search_from_images_begins_at_their_part_in_the_row_space() -> None:
    network, points, _ = two_point_problem()
    generator = torch.Generator().manual_seed(2)
    basis, _ = torch.linalg.qr(torch.randn(D, 3, generator=generator, dtype=torch.float64))
    space = RowSpace(basis, torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64), gap=True)
    start = Start(coordinates_of(points, space, 0.5), positive_coefficients(generator))
    params = changed(steps=1, lr=1e-12, lambda_lr=1e-12, coordinate_power=0.5)
    (found,) = search(Problem(network, space), [start], params, silent)
    torch.testing.assert_close(found.candidates, points @ basis @ basis.T)


def out_of_memory(fits: Callable[[StationarityResidual], bool]) -> Callable[..., Any]:
    """Return a residual that runs out of memory halfway, unless it fits."""
    whole = StationarityResidual._gradient

    def gradient(residual: StationarityResidual, *args: Any) -> Tensor:
        found = whole(residual, *args)  # what is added to the coefficients' gradients before must not stay
        if not fits(residual):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return found

    return gradient


def test_a_search_that_runs_out_of_memory_goes_on_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    network, _, _ = two_point_problem()

    def candidates() -> Tensor:
        (found,) = search(everywhere(network), [random_start(0)], changed(steps=20), silent)
        return found.candidates

    expected = candidates()
    monkeypatch.setattr(StationarityResidual, "_gradient", out_of_memory(lambda residual: residual.parts > 1))
    torch.testing.assert_close(candidates(), expected)
    monkeypatch.setattr(StationarityResidual, "_gradient", out_of_memory(lambda residual: False))
    with pytest.raises(torch.OutOfMemoryError):
        candidates()


def test_a_second_try_begins_when_the_tensors_of_the_first_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the parts have only the memory that the whole batch leaves, and do not fit either."""
    forward, kept = StationarityResidual._pass, []

    def passed(residual: StationarityResidual, *args: Any) -> Any:
        if len(kept) == 1:
            assert residual.parts > 1
            assert kept[0]() is None
        found = forward(residual, *args)
        kept.append(weakref.ref(found.ungated[0]))
        return found

    monkeypatch.setattr(StationarityResidual, "_pass", passed)
    monkeypatch.setattr(StationarityResidual, "_gradient", out_of_memory(lambda residual: residual.parts > 1))
    network, _, _ = two_point_problem()
    search(everywhere(network), [random_start(0)], changed(steps=3), silent)
    assert len(kept) > 1


def test_a_bias_of_zeros_has_no_size_by_which_to_weight_it() -> None:
    network, _, _ = two_point_problem()
    blank = Network(network.weights, (torch.zeros(H, dtype=torch.float64), None))
    space = RowSpace(torch.eye(D, dtype=torch.float64), torch.ones(D, dtype=torch.float64), gap=True)
    (found,) = search(Problem(blank, space), [random_start(0)], changed(steps=3, residual_power=0.3), silent)
    assert bool(found.candidates.isfinite().all())


def test_the_published_loop_recovers_them_too() -> None:
    network, points, _ = two_point_problem()
    generator = torch.Generator().manual_seed(0)
    start = torch.rand(2, generator=generator, dtype=torch.float64)
    candidates, _ = published_search(
        network,
        margin_coefficients(torch.ones(2, dtype=torch.long), start, positive=False),
        2,
        steps=3000,
        lr=0.002,
        lambda_lr=0.002,
        init_scale=0.3,
        lambda_min=0.1,
        alpha=20.0,
        generator=generator,
        report=silent,
    )
    cosine = torch.nn.functional.cosine_similarity(candidates[match(candidates, points)], points)
    assert bool((cosine > 0.99).all()), cosine
