"""The spans and the data subspace that a victim's weights show, against constructions that are known."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from attacks.base import Attack
from attacks.kkt import KKT
from attacks.kkt_conv import KKTConv
from attacks.kkt_family.params import SearchParams
from attacks.kkt_family.problem import Problem
from attacks.kkt_family.search import _residual
from attacks.kkt_general import KKTGeneral
from victims.equations.network import Network
from victims.equations.row_space import row_space
from victims.equations.spans import MOST_HIDDEN, Spans
from victims.spec import ConvSpec, MLPSpec, VictimSpec

D, H, N, OUTPUTS = 60, 40, 12, 3


def draw(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def outside(vectors: Tensor, basis: Tensor) -> Tensor:
    """The share of the energy that a least-squares fit leaves."""
    rest = vectors.T - basis @ torch.linalg.lstsq(basis, vectors.T).solution
    return rest.square().sum(0) / vectors.square().sum(1)


def planted(shown: int, noise: float = 1e-6) -> tuple[Problem, Tensor, Tensor]:
    """A problem with W_1 = errors' images and W_2 = coefficients' activations, the latter of a given rank."""
    generator = torch.Generator().manual_seed(2)
    errors, images, activations = (draw(generator, N, k) for k in (H, D, H))
    first = errors.T @ images + noise * draw(generator, H, D)
    mixed = draw(generator, 30, shown) @ draw(generator, shown, N) @ activations
    second = mixed + noise * draw(generator, 30, H)
    net = Network((first, second, draw(generator, OUTPUTS, 30)), (None, None, None))
    return Problem(net, row_space(first)), errors, activations


def test_weights_show_the_spans_of_errors_and_activations() -> None:
    problem, errors, activations = planted(shown=N)
    spans = problem.spans(1.0, 2.0)
    assert spans.errors is not None
    assert spans.activations is not None
    assert spans.activations.weight == 2.0
    assert spans.errors.basis.shape == spans.activations.basis.shape == (H, N)
    others = draw(torch.Generator().manual_seed(3), N, H)
    for span, true in ((spans.errors, errors), (spans.activations, activations)):
        assert float(outside(true, span.basis).max()) < 1e-9
        assert float(outside(others, span.basis).min()) > 0.3


@pytest.mark.parametrize("shown", [2, 3, 6, 11])
def test_fewer_directions_than_images_are_a_span_too(shown: int) -> None:
    """The initialisation may hide the smallest, and the largest hold most of the energy."""
    spans = planted(shown)[0].spans(0.0, 1.0)
    assert spans.activations is not None
    assert spans.activations.basis.shape == (H, shown)


@pytest.mark.parametrize(("share", "spanned"), [(MOST_HIDDEN / 2, True), (2 * MOST_HIDDEN, False)])
def test_a_start_that_hides_too_much_of_w2_leaves_the_errors_alone(share: float, spanned: bool) -> None:
    """The directions below the gap hold a share of ||W_2||^2."""
    problem, _, _ = planted(shown=6)
    first, second, last = problem.network.weights
    noise = draw(torch.Generator().manual_seed(5), *second.shape)
    below = noise - noise @ row_space(second).basis @ row_space(second).basis.T
    hidden = second + below * second.norm() / below.norm() * math.sqrt(share / (1 - share))
    assert row_space(hidden).rank == 6 and row_space(hidden).gap
    spans = Problem(Network((first, hidden, last), (None,) * 3), problem.space).spans(1.0, 1.0)
    assert (spans.activations is not None) == spanned
    assert spans.errors is not None


def test_each_weight_is_the_price_of_its_own_span() -> None:
    """Divided by sqrt(r), as the search says."""
    problem, _, _ = planted(shown=N)
    spans = _residual(problem, SearchParams(signal_span=0.3, activation_span=0.7)).spans
    direct = problem.spans(0.3 / math.sqrt(N), 0.7 / math.sqrt(N))
    for found, expected in ((spans.errors, direct.errors), (spans.activations, direct.activations)):
        assert found is not None and expected is not None
        assert found.weight == expected.weight
        torch.testing.assert_close(found.basis, expected.basis)
    assert direct.errors is not None and direct.errors.weight == 0.3 / math.sqrt(N)


def test_no_span_where_the_weights_show_none() -> None:
    problem, _, _ = planted(shown=1)
    assert problem.spans(1.0, 1.0).activations is None, "one direction is not twelve activations"
    assert problem.spans(0.0, 0.0) == Spans()
    generator = torch.Generator().manual_seed(4)
    narrow = Network((problem.network.weights[0], draw(generator, 8, H), draw(generator, 1, 8)), (None, None, None))
    assert Problem(narrow, problem.space).spans(0.0, 1.0) == Spans(), "all of eight rows are no twelve activations"
    for weights in ((draw(generator, 10, D),), (draw(generator, 10, D), draw(generator, 1, 10))):
        untrained = Problem(Network(weights, (None,) * len(weights)), row_space(weights[0]))
        assert untrained.spans(1.0, 1.0) == Spans()


@pytest.mark.parametrize("attack", [KKT, KKTConv])
def test_no_price_on_the_lengths_of_images_where_features_make_up_the_weights(attack: type[Attack[Any]]) -> None:
    """Images and features have different units: twice the images, half the filters, and the weights are the same."""
    spec = VictimSpec(
        name="digits-conv-6-price", dataset="digits", n=6, architecture=ConvSpec(channels=4, hidden=(10,))
    )
    assert attack(attack.Params()).supports(spec) is None
    assert "set sparsity=0" in str(attack(attack.Params(sparsity=0.05)).supports(spec))
    assert KKTGeneral(KKTGeneral.Params(method="published")).supports(spec) is None, "it knows no sparsity"


def test_no_price_on_frequencies_where_images_are_sought_in_a_row_space() -> None:
    """Coordinates in the row space of W1 have no frequency."""
    spec = VictimSpec(name="digits-mlp-6-price", dataset="digits", n=6, architecture=MLPSpec(hidden=(10,)))
    assert KKTGeneral(KKTGeneral.Params()).supports(spec) is None
    assert "set smoothness=0" in str(KKTGeneral(KKTGeneral.Params(smoothness=0.1)).supports(spec))
