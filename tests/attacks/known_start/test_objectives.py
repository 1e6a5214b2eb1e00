"""What the searches on a known start minimise, and where they begin, written out on random networks in float64."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attacks.known_start.equation import Equation, interpolated
from attacks.known_start.feature_search import FeatureSearch
from attacks.known_start.front import FeatureExtractor
from attacks.known_start.params import FeatureParams, KKTDeltaParams, ResolvedParams
from attacks.known_start.polish import Polish
from attacks.known_start.search import Search
from attacks.known_start.unrolled_training import UnrolledTraining
from attacks.optimisation.variation import relative_variation
from victims.equations.architectures import MLP
from victims.equations.network import Network
from victims.ordinary.difference import difference
from victims.recipes import Ordinary

SHARP = 1e8
SHAPE, D, H, RANK, M = (1, 3, 4), 12, 9, 4, 5
POINTS = (0.2, 0.7)


def network(seed: int) -> Network:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(H, D), (8, H), (3, 8), (H,), (8,), (3,)]
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) / math.sqrt(shape[-1]) for shape in shapes]
    return Network(tuple(drawn[:3]), tuple(drawn[3:]))


START = network(0)
END = interpolated(START, network(3), 0.3)
"""A released network that keeps a part of its start, so that the start has decayed."""


def equation(points: tuple[float, ...] = POINTS) -> Equation:
    return Equation.of(START, END, difference(END.weights[0], START.weights[0]), RANK, points)


def resolved(**settings: float) -> ResolvedParams:
    powers = {"coordinate_power": 0.4, "residual_power": 0.3, "neuron_power": 0.7}
    params = KKTDeltaParams(candidates=M, points=POINTS, steps=10, alpha=(1, 5), **(powers | settings))  # type: ignore[arg-type]
    return params.resolved(images=10, moved=0.0)


def terms(networks: tuple[Network, ...], inputs: Tensor, coefficients: Tensor) -> tuple[Tensor, Tensor]:
    """Return the errors (m, h) summed over the networks, and their sum in layer 2, with the ReLU's own gates."""
    errors, seconds = torch.zeros(1), torch.zeros(1)
    for (first, second, last), (bias, bias_2, _), chosen in (
        (one.weights, one.biases, own) for one, own in zip(networks, coefficients, strict=True)
    ):
        assert bias is not None
        assert bias_2 is not None
        active = (inputs @ first.T + bias).relu()
        later = chosen @ last * (active @ second.T + bias_2 > 0)
        errors = errors + later @ second * (active > 0)
        seconds = seconds + later.T @ active
    return errors, seconds


def left(found: Equation, weight: Tensor, bias: Tensor, q: float, s: float) -> Tensor:
    """Return the relative square of what is left of layer 1, with its rows and columns weighted."""
    assert found.bias is not None
    sizes = (found.weight.square().sum(1) + found.bias**2).sqrt()
    rows = (sizes / sizes.square().mean().sqrt()) ** -s
    mean = found.singular.square().mean().sqrt()
    columns, beside = (found.singular / mean) ** -q, (found.bias.norm() / mean) ** -q

    def square(weight: Tensor, bias: Tensor) -> Tensor:
        return ((rows[:, None] * weight * columns) ** 2).sum() + ((rows * bias * beside) ** 2).sum()

    return square(weight, bias) / square(found.weight, found.bias)


def outside(vectors: Tensor, columns: Tensor) -> Tensor:
    """Return the share (m,) of the energy of vectors (m, h) that no combination of columns (h, r) has."""
    inside = vectors @ columns @ torch.linalg.pinv(columns)
    return (vectors - inside).square().sum(1) / vectors.square().sum(1)


def test_the_start_has_decayed_in_every_part_of_the_difference() -> None:
    found = equation()
    decay = found.found.decay
    assert 0.3 < decay < 0.9
    assert found.bias is not None
    assert START.biases[0] is not None
    assert END.biases[0] is not None
    torch.testing.assert_close(found.weight, (END.weights[0] - decay * START.weights[0]) @ found.basis)
    torch.testing.assert_close(found.bias, END.biases[0] - decay * START.biases[0])
    torch.testing.assert_close(found.second, END.weights[1] - decay * START.weights[1])


def test_a_point_of_the_way_is_nearer_to_the_end_that_it_is_nearer_to() -> None:
    quarter = interpolated(START, END, 0.25)
    for parts in ((quarter.weights, START.weights, END.weights), (quarter.biases, START.biases, END.biases)):
        for there, first, last in zip(*parts, strict=True):
            assert there is not None
            torch.testing.assert_close(there, 0.75 * first + 0.25 * last)  # type: ignore[operator]


def test_what_a_search_minimises() -> None:
    found, params = equation(), resolved(second_layer=0.6, signal_span=0.15)
    search = Search(found, params, torch.Generator().manual_seed(0))
    inputs = search.coordinates * (found.singular / found.singular.square().mean().sqrt()) ** 0.4
    errors, second = terms(found.networks, inputs, search.unit * search.coefficients)
    assert found.bias is not None
    residual = left(found, found.weight - errors.T @ inputs, found.bias - errors.sum(0), 0.3, 0.7)
    later = (found.second - second).square().sum() / found.second.square().sum()
    cost = 0.15 / math.sqrt(RANK) * outside(errors, found.weight).sum()
    torch.testing.assert_close(search.objective(SHARP), residual + 0.6 * later + cost)

    with_shape = replace(found, ends=(START, replace(END, input_shape=SHAPE)))
    params = params.model_copy(update={"total_variation": 0.2})
    varying = Search(with_shape, params, torch.Generator().manual_seed(0))
    variation = 0.2 * relative_variation((inputs @ found.basis.T).view(M, *SHAPE)).mean()
    torch.testing.assert_close(varying.objective(SHARP), residual + 0.6 * later + cost + variation)
    relative = (found.weight - errors.T @ inputs).norm() / found.weight.norm()
    sharp = Search(found, params.model_copy(update={"alpha": (1, SHARP)}), torch.Generator().manual_seed(0))
    sharp.unit = search.unit
    assert sharp.found().residual == pytest.approx(float(relative.detach()))
    torch.testing.assert_close(sharp.found().weights, 1 - outside(errors, found.weight).detach())


def test_a_search_begins_at_one_length_with_terms_a_tenth_of_those_that_would_make_up_the_difference() -> None:
    """As if the terms stood at right angles to one another: their squares add up."""
    found, params = equation(), resolved(pixel_size=0.8)
    search = Search(found, params.model_copy(update={"alpha": (1, SHARP)}), torch.Generator().manual_seed(0))
    inputs = search.coordinates * search.scaling
    length = 0.8 * math.sqrt(D)
    torch.testing.assert_close(inputs.norm(dim=1), torch.full((M,), length, dtype=torch.float64))
    errors, _ = terms(found.networks, inputs, search.unit * search.coefficients)
    size = float(errors.norm(dim=1).mean()) * length * math.sqrt(M)
    assert size == pytest.approx(0.1 * float(found.weight.norm()))


def test_a_candidate_follows_where_it_is_the_least_squares_solution() -> None:
    """Compared where a direction counts by the root of its singular value; with a ridge of a thousandth."""
    found, generator = equation(), torch.Generator().manual_seed(1)
    inputs = torch.randn(M, RANK, generator=generator, dtype=torch.float64)
    errors = torch.randn(M, H, generator=generator, dtype=torch.float64)
    assert found.bias is not None
    sizes = (found.weight.square().sum(1) + found.bias**2).sqrt()
    fired = errors / (sizes / sizes.square().mean().sqrt())
    gram = fired @ fired.T
    gram = gram + 1e-3 * gram.diagonal().median() * torch.eye(M).double()
    aimed = fired @ (found.weight / (sizes / sizes.square().mean().sqrt())[:, None])
    solved, root = torch.linalg.solve(gram, aimed), found.singular.sqrt()
    expected = F.cosine_similarity(solved / root, inputs / root).clamp(min=1e-3)
    assert (expected > 1e-3).any()
    torch.testing.assert_close(found.consistency(inputs, errors), expected)


def test_what_a_search_for_features_minimises() -> None:
    """Behind a layer that stayed, whose activations are the features."""
    model = MLP((D, D, H, 8, 3), [True] * 4).double().requires_grad_(False)
    front, found = FeatureExtractor(model, 1), equation((0.4,))
    params = FeatureParams(
        dtype="float64",
        steps=10,
        residual_power=0.3,
        neuron_power=0.7,
        second_layer=0.6,
        feature_span=0.3,
        signal_span=0.2,
        prior=0.05,
    )
    search = FeatureSearch(found, front, SHAPE, M, params, torch.Generator().manual_seed(0))
    with torch.no_grad():
        search.coordinates.mul_(torch.linspace(0.5, 2, M)[:, None, None, None])
    features = torch.relu(model.layers[0](search.images().flatten(1)))
    inputs = features @ found.basis
    errors, second = terms(found.networks, inputs, search.unit * search.coefficients[None])
    assert found.bias is not None
    residual = left(found, found.weight - errors.T @ inputs, found.bias - errors.sum(0), 0.3, 0.7)
    later = (found.second - second).square().sum() / found.second.square().sum()
    leaving = 0.3 * outside(features, found.basis) + 0.2 * outside(errors, found.weight)
    size = search.coordinates.square().mean((1, 2, 3))
    expected = residual + 0.6 * later + (leaving + 0.05 * size).sum() / math.sqrt(RANK)
    torch.testing.assert_close(search.objective(SHARP), expected)


@pytest.mark.parametrize("moved", [True, False])
def test_what_a_search_through_the_training_minimises(moved: bool) -> None:
    found = equation()
    if not moved:
        found = replace(found, ends=(START, START))
    recipe = Ordinary(lr=0.1, batch_size=4, epochs=3, weight_decay=0.01)
    replay = UnrolledTraining.of(START.on_coordinates(found.basis), recipe, 4, 100, SHARP)
    candidates = torch.randn(M, D, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    polish = Polish(found, END, replay, candidates, resolved(pixel_size=0.8, second_layer=0.6))
    inputs = 0.8 * math.sqrt(D) * F.normalize(candidates @ found.basis, dim=1)
    outputs = END.on_coordinates(found.basis).forward(inputs, torch.relu)
    targets = F.one_hot(outputs.argmax(1), 3).double()
    ended = replay.end(inputs, targets, torch.full((M,), 1 / M).double())
    assert END.biases[0] is not None
    missed = ended[0] - END.weights[0] @ found.basis
    distance = left(found, missed, ended[3] - END.biases[0], 0.3, 0.7)
    later = (ended[1] - END.weights[1]).square().sum() / found.second.square().sum()
    torch.testing.assert_close(polish.objective(1.0), distance + 0.6 * later * moved)
    assert polish.found().residual == pytest.approx(float(missed.norm() / found.weight.norm()))
    torch.testing.assert_close(polish.found().weights, torch.ones(M).double())
    (rate,) = {group["lr"] / 0.04 for group in polish.cycle._adam.param_groups[:1]}  # a cycle begins at a 25th
    assert rate == pytest.approx(0.3 * 0.8 * math.sqrt(D / RANK))
