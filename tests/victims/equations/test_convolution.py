"""The row space of a convolution's features, against constructions that are known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from attacks.kkt_family.coefficients import free_coefficients
from attacks.kkt_family.params import SearchParams
from attacks.kkt_family.problem import Problem
from attacks.kkt_family.search import _residual
from victims.equations.adjoint import StationarityResidual, Weighting
from victims.equations.convolution import FeatureResidual
from victims.equations.network import Network
from victims.equations.row_space import CosineSpace, row_span
from victims.equations.spans import SpanPenalty

SHAPE, CHANNELS, HIDDEN, N = (3, 7, 7), 6, 40, 4
ALPHA = 3.0


def planted(convolutions: int = 1) -> tuple[Network, Tensor, Tensor]:
    """A network with W = sum_i c_i D_i' phi(x_i), D_i gated by smooth gates, the images x (n, C, H, W) and c.

    W is the weight of the layer after the convolutions.
    """
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    filters, bias, images, output = draw(CHANNELS, 3, 3, 3) / 5, draw(CHANNELS) / 5, draw(N, *SHAPE), draw(1, HIDDEN)
    more = [draw(CHANNELS, CHANNELS, 2, 2) / 5 for _ in range(convolutions - 1)]
    features = features_of(images, (filters, *more), bias)
    coefficients, gates = draw(N, 1), torch.rand(N, HIDDEN, generator=generator, dtype=torch.float64)
    after = (coefficients * output * gates).T @ features
    biases = (bias, *(None for _ in more), None, None)
    return Network((filters, *more, after, output), biases, SHAPE), images, coefficients


def features_of(images: Tensor, filters: Sequence[Tensor], bias: Tensor | None) -> Tensor:
    maps = torch.nn.functional.conv2d(images, filters[0], bias).relu()
    for kernels in filters[1:]:
        maps = torch.nn.functional.conv2d(maps, kernels).relu()
    return maps.flatten(1)


def test_the_rows_of_layer_2_show_the_span_of_the_training_images_features() -> None:
    network, images, _ = planted()
    noise = torch.randn(network.weights[1].shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    noisy = Network((network.weights[0], network.weights[1] + 1e-6 * noise, network.weights[2]), network.biases, SHAPE)
    space = row_span(noisy.weights[1])
    assert space.gap
    assert space.rank == N
    features = torch.nn.functional.conv2d(images, network.weights[0], network.biases[0]).relu().flatten(1)
    outside = features - features @ space.basis @ space.basis.T
    assert float(outside.norm() / features.norm()) < 1e-4
    others = torch.randn(N, *SHAPE, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    features = torch.nn.functional.conv2d(others, network.weights[0], network.biases[0]).relu().flatten(1)
    outside = features - features @ space.basis @ space.basis.T
    assert float(outside.norm() / features.norm()) > 0.3


@pytest.mark.parametrize(("convolutions", "span_weight"), [(1, 0.0), (1, 2.0), (2, 2.0)])
def test_the_gradient_is_that_of_central_differences(convolutions: int, span_weight: float) -> None:
    network, images, coefficients = planted(convolutions)
    space, features = CosineSpace.of(SHAPE, network.weights[0]), row_span(network.weights[convolutions])
    after = network.after_convolutions().on_coordinates(features.basis)
    inner = StationarityResidual(after, Weighting.uniform(after, (1.0, 0.0)))
    residual = FeatureResidual(network, space, SpanPenalty(features.basis, span_weight), inner)
    rows = free_coefficients(coefficients).at
    coordinates = space.coordinates((images + 0.3).flatten(1))

    def whole(at: Tensor) -> float:
        value, _ = residual(at, rows, ALPHA)
        pixels = space.inputs(at).view(-1, *SHAPE)
        phi = features_of(pixels, network.weights[:convolutions], network.biases[0])
        outside = (phi - phi @ features.basis @ features.basis.T).square().sum(1) / phi.square().sum(1)
        return float(value) + span_weight * float(outside.sum())

    _, gradient = residual(coordinates, rows, ALPHA)
    direction = torch.randn(coordinates.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    step = 1e-6 * direction
    difference = (whole(coordinates + step) - whole(coordinates - step)) / 2e-6
    assert float((gradient * direction).sum()) == pytest.approx(difference, rel=1e-6)


def test_offsets_are_those_of_the_layer_after_the_convolutions() -> None:
    """With offsets the gradients by images and by offsets are those of central differences."""
    network, images, coefficients = planted(1)
    space, features = CosineSpace.of(SHAPE, network.weights[0]), row_span(network.weights[1])
    after = network.after_convolutions().on_coordinates(features.basis)
    inner = StationarityResidual(after, Weighting.uniform(after, (1.0, 0.0)))
    residual = FeatureResidual(network, space, SpanPenalty(features.basis, 0.0), inner)
    rows, coordinates = free_coefficients(coefficients).at, space.coordinates((images + 0.3).flatten(1))
    generator = torch.Generator().manual_seed(3)
    offsets = torch.randn(len(images), len(after.weights[0]), generator=generator, dtype=torch.float64)
    both = [torch.randn(one.shape, generator=generator, dtype=torch.float64) for one in (coordinates, offsets)]

    leaf = offsets.clone().requires_grad_()
    _, gradient = residual(coordinates, rows, ALPHA, leaf)
    assert leaf.grad is not None
    for moved, gradients in ((0, gradient), (1, leaf.grad)):
        step = [1e-4 * one if index == moved else 0 * one for index, one in enumerate(both)]
        ahead, _ = residual(coordinates + step[0], rows, ALPHA, offsets + step[1])
        behind, _ = residual(coordinates - step[0], rows, ALPHA, offsets - step[1])
        assert float((gradients * both[moved]).sum()) == pytest.approx(float(ahead - behind) / 2e-4, rel=1e-6)


def test_each_weight_is_the_price_of_its_own_span() -> None:
    """Of the features' span for activations, and of the errors that are back-propagated to layer 2; over sqrt(r)."""
    network, _, _ = planted()
    problem = Problem(network, CosineSpace.of(SHAPE, network.weights[0]), row_span(network.weights[1]))
    found = _residual(problem, SearchParams(signal_span=0.3, activation_span=0.7))
    assert isinstance(found, FeatureResidual)
    assert found.features.weight == 0.7 / 2
    assert found.residual.spans.errors is not None
    assert found.residual.spans.errors.weight == 0.3 / 2
    assert found.residual.spans.activations is None
