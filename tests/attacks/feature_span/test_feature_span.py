"""Images in the span of features behind a convolution: exact recovery, and the objective against its words."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from attacking import Interrupted, Memory, context
from torch import Tensor

import attacks.context
from attacks.feature_span.deflation import Deflation
from attacks.feature_span.params import ConvSpanParams
from attacks.feature_span.search import SpanSearch, shown_span
from victims.equations.network import Network
from victims.equations.row_space import CosineSpace

SHAPE, CHANNELS, HIDDEN, N = (3, 8, 8), 10, 40, 3
FREE = ConvSpanParams(lr=0.05, steps=500, smoothness=0.0, repulsion=0.0, apart=0.75, whitening=0.75)


def planted(seed: int, old: float = 0.0) -> tuple[Network, Tensor]:
    """A network whose layer 2 is made of the features of N smooth images (N, d), and of a share `old` of others'."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    space = CosineSpace.of(SHAPE, draw(1))
    images = space.inputs(draw(2 * N, space.rank) * space.singular)
    weights = (draw(CHANNELS, 3, 3, 3) / 5, draw(HIDDEN, 1), draw(1, HIDDEN))
    network = Network(weights, (draw(CHANNELS) / 5, None, None), SHAPE)
    features = network.features(images)
    second = draw(HIDDEN, N) @ features[:N] + old * draw(HIDDEN, N) @ features[N:]
    return Network((network.weights[0], second, network.weights[2]), network.biases, SHAPE), images[:N]


def searched(network: Network, start: Tensor, known: Tensor, params: ConvSpanParams) -> SpanSearch:
    search = SpanSearch(network, shown_span(network.weights[1]), start, known, params)
    for _ in range(params.steps):
        search.step()
    return search


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)


def coordinates_of(images: Tensor) -> Tensor:
    space = CosineSpace.of(SHAPE, images)
    return space.coordinates(images) / (space.singular / space.singular.square().mean().sqrt())


def cosines(images: Tensor, others: Tensor) -> Tensor:
    return torch.nn.functional.cosine_similarity(images[:, None], others[None], dim=2)


@pytest.mark.parametrize("seed", range(3))
def test_training_images_are_found_exactly_from_far_around_them(seed: int) -> None:
    """Each alone, and no other image: the features of held-out ones are far from the span."""
    network, images = planted(seed)
    start = coordinates_of(images)
    start = start + 0.2 * start.square().mean().sqrt() * noise(*start.shape)
    search = searched(network, start, torch.zeros(0, N, dtype=torch.float64), FREE)
    with torch.no_grad():
        assert search.features_of(search.images())[0].max() < 1e-5
        assert search.features_of(noise(8, network.inputs))[0].min() > 0.05
        assert cosines(images, search.images()).diagonal().min() > 0.998
        assert cosines(images, search.space.inputs(start * search.scale)).diagonal().max() < 0.99


def test_a_candidate_leaves_an_image_that_was_found_before() -> None:
    network, images = planted(0)
    empty = torch.zeros(0, N, dtype=torch.float64)
    begun = SpanSearch(network, shown_span(network.weights[1]), coordinates_of(images), empty, FREE)
    with torch.no_grad():
        signatures = begun.features_of(images)[1]
        params = ConvSpanParams(lr=0.05, steps=500, smoothness=0.0, repulsion=1.0, apart=0.75, whitening=0.75)
        known = signatures[:1]
    search = searched(network, coordinates_of(images) + 0.01 * noise(*images.shape), known, params)
    with torch.no_grad():
        apart = (search.features_of(search.images())[1] @ known.T)[:, 0]
        assert apart[0] < 0.9
        assert (search.images() - images)[1:].norm() < 0.1 * images[1:].norm()


def test_the_span_ends_where_the_last_image_does_and_not_where_the_noise_begins() -> None:
    network, images = planted(0, old=1e-3)
    span = shown_span(network.weights[1] + 1e-6 * noise(*network.weights[1].shape))
    assert span.gap
    assert span.rank == N
    features = network.features(images)
    assert ((features - features @ span.basis @ span.basis.T).norm() / features.norm()) < 1e-2


def test_the_objective_is_what_its_words_say() -> None:
    network, _ = planted(1)
    span = shown_span(network.weights[1])
    known = torch.nn.functional.normalize(torch.ones(1, N, dtype=torch.float64))
    params = ConvSpanParams(lr=0.05, steps=500, smoothness=0.3, repulsion=2.0, apart=-0.5, whitening=1.0)
    start = torch.randn(2, network.inputs, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    search = SpanSearch(network, span, start, known, params)
    space = CosineSpace.of(SHAPE, start)
    expected, every = 0.0, []
    for coordinates in start:
        image = space.inputs(coordinates * space.singular / space.singular.square().mean().sqrt())
        maps = torch.nn.functional.conv2d(image.view(1, *SHAPE), network.weights[0], network.biases[0])
        features = maps.clamp_min(0).flatten()
        inside = span.basis.T @ features
        signature = inside / span.singular
        cosine = float(signature @ known[0] / signature.norm())
        every.append((1 - float(inside.square().sum() / features.square().sum()), signature / signature.norm()))
        expected += every[-1][0]
        expected += 2.0 * max(cosine + 0.5, 0.0) ** 2 + 0.3 * float(coordinates.square().mean())
    alike = float(every[0][1] @ every[1][1])
    assert alike > -0.5
    expected += 2.0 * (alike + 0.5) ** 2  # one of the two gives way
    assert float(search.objective()) == pytest.approx(expected, rel=1e-9)


def test_smoothness_decides_what_the_convolution_does_not_see() -> None:
    """One filter sees a combination of channels: a price leaves the rest at zero, and none leaves it at the start."""
    network, _ = planted(2)
    grey = network.weights[0][:1, :1].expand(CHANNELS, 3, 3, 3) * torch.linspace(-1, 1, CHANNELS).view(-1, 1, 1, 1)
    blind = Network((grey, *network.weights[1:]), network.biases, SHAPE)
    unseen = []
    for price in (0.0, 1e-3):
        params = ConvSpanParams(lr=0.05, steps=500, smoothness=price, repulsion=0.0, apart=0.75, whitening=0.75)
        start = 0.1 * noise(2, blind.inputs)
        images = searched(blind, start, torch.zeros(0, N, dtype=torch.float64), params).images().view(-1, *SHAPE)
        unseen.append(float((images - images.mean(1, keepdim=True)).square().mean().detach()))
    assert unseen[1] < 1e-3 * unseen[0]


def test_a_round_has_three_candidates_for_each_direction_unless_it_is_told_how_many() -> None:
    network, _ = planted(0)
    span = shown_span(network.weights[1])
    for given, many in ((None, 3 * N), (5, 5)):
        rounds = Deflation(network, span, ConvSpanParams(candidates=given, rounds=1, steps=1), context())
        rounds.run()
        assert len(rounds.images) == rounds.candidates == many


@pytest.mark.parametrize("most", [4, 6, 9, 12])
def test_a_killed_search_ends_where_an_undisturbed_one_does(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in the first of two rounds of six steps, at its end, in the second, and after the last step of all."""
    monkeypatch.setattr(attacks.context, "CHECKPOINT_SECONDS", 0.0)
    network, _ = planted(0)
    span, params = shown_span(network.weights[1]), ConvSpanParams(candidates=4, rounds=2, steps=6)
    undisturbed = Deflation(network, span, params, context())
    undisturbed.run()
    kept = Memory(most=most)
    with pytest.raises(Interrupted):
        Deflation(network, span, params, replace(context(), checkpoints=kept)).run()
    kept.most = 10**9
    again = Deflation(network, span, params, replace(context(), checkpoints=kept))
    again.run()
    assert torch.equal(again.images, undisturbed.images)
    assert torch.equal(again.known, undisturbed.known)
    assert again.spent == undisturbed.spent == 12
    assert kept.kept == 12
