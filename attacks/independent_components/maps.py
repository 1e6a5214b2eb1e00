"""Behind convolutions: the independent components of a span of features.

The first fully connected layer sees feature maps phi(x_i), and what a training adds to it is sum_i D_i phi(x_i)': the
cocktail party again (after Kariyappa et al. 2023), with maps in the place of images. Maps of one image are as flat but
for edges as the image is, so that small filters tell maps from mixtures of them, each channel by itself. Deeper maps
have fewer edges; there the layers behind them tell more, in rounds. A map is not negative behind a ReLU, which tells
its sign; so it is told where the features of noise add up to more than 0, and else by the errors that the layers
explain. Its length is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from attacks.independent_components.errors import Explaining
from attacks.independent_components.params import CocktailPartyFeaturesParams as Params
from attacks.independent_components.pictures import FeatureMaps
from attacks.independent_components.rounds import Separated, SourceSeparation
from attacks.independent_components.span import UpdateSpan
from attacks.independent_components.tail import Tailed
from attacks.knowledge import Architecture
from attacks.known_start.equation import checked_difference, interpolated
from attacks.known_start.front import FeatureExtractor, convolutions, head
from attacks.optimisation.parts import CUT, Parts
from attacks.unknown_start.adapter import Apart
from victims.equations.network import Network
from victims.files import below, under
from victims.networks import has_tail

State = Mapping[str, Tensor]
"""Parameters and statistics of a network, by name."""
FEATURES = "features."
"""Prefix of the names of a checkpoint's tensors that belong to the components, once they are found."""
SEPARATED = "separated."
"""Prefix of the names of the tensors that say how a separation ended, beside the images that have the components."""
SEPARATION = 0.7
"""Share of a budget that the separation may spend; without a search after it no image comes out."""
FULL = 0.9
"""Share of all directions above which noise fills them; neurons that never fire leave the others empty."""
TYPICAL = 32
"""Images of noise whose features tell how large features are."""


@dataclass(frozen=True)
class Held:
    """What a network's first fully connected layer holds of the training images' features.

    Attributes:
        front: what is before that layer; it maps images to features.
        span: of the features, and what is known beside.
    """

    front: FeatureExtractor
    span: UpdateSpan

    @classmethod
    def added_to(
        cls,
        architecture: Architecture,
        start: State,
        end: State,
        images: int | None,
        params: Params,
        apart: Apart | None = None,
    ) -> Held:
        """Return what a training has added to its start, with the front in the middle of the way, or where it is asked.

        Args:
            architecture: of the network.
            start: its parameters and statistics at the beginning, by name.
            end: those that are released.
            images: n, None to read the number of directions off the weights.
            params: hyperparameters.
            apart: the released layers behind the front with a low-rank update taken apart; None without one.

        Raises:
            ValueError: the start is of another shape, is the released network itself, or is not where its training
                began.
        """
        build, before = _builder(architecture, end), convolutions(end)
        front = FeatureExtractor.of(build, start, end, params.point, before)
        first, last = layers_behind(architecture, start), layers_behind(architecture, end)
        at: Callable[[float], Explaining] = partial(interpolated, first, last)
        if has_tail(architecture.spec):
            at = partial(Tailed.between, build, start, end)
        if apart is not None:
            return cls(front, features_span(first, apart.network, images, at, params, apart))
        return cls(front, features_span(first, last, images, at, params))

    @classmethod
    def at_rest(cls, architecture: Architecture, end: State, images: int | None) -> Held | None:
        """Return what the released weights hold alone, None where they show no end of the features' span.

        Args:
            architecture: of the network.
            end: its parameters and statistics as released, by name.
            images: n, None to read it off the weights.
        """
        build, before = _builder(architecture, end), convolutions(end)
        front = FeatureExtractor.of(build, end, end, 1.0, before)
        tailed = Tailed.between(build, end, end, 1.0) if has_tail(architecture.spec) else None
        span = UpdateSpan.held_by(layers_behind(architecture, end), images, tailed)
        if span is None:
            return None
        return cls(front, replace(span, flag=f"start taken for forgotten, {len(span.basis)} directions"))


def layers_behind(architecture: Architecture, state: State) -> Network:
    """Return the fully connected layers behind convolutions, or that one and the matrices of a tail."""
    return Network.of_matrices(state) if has_tail(architecture.spec) else head(state, convolutions(state))


def _builder(architecture: Architecture, state: State) -> Callable[[], nn.Module]:
    """Return what builds the network, with arbitrary weights, where a state's tensors are."""
    device = next(iter(state.values())).device
    return lambda: architecture.build().to(device)


def features_span(
    start: Network,
    end: Network,
    images: int | None,
    at: Callable[[float], Explaining],
    params: Params,
    apart: Apart | None = None,
) -> UpdateSpan:
    """Return the span of the features, and what is known beside.

    The front moves too while it trains, so that an image has features of its own in every step; a gap ends their span
    only where the front stayed, or hardly moved, as in few steps. Where nearly all directions are needed to hold the
    squares, noise fills them, as after Adam, which scales the entries of a gradient each by its own factor; then those
    count that stand above it.

    Args:
        start: the fully connected layers at the beginning.
        end: those of the released network.
        images: n, None to read the number of directions off the weights.
        at: returns what explains errors at a share in [0, 1] of the way from the start to the end.
        params: hyperparameters.
        apart: the end, where it is that of a low-rank update which was taken apart; None elsewhere.

    Raises:
        ValueError: the start is of another shape, is the released network itself, or is not where its training began.
    """
    found, like = checked_difference(start, end), end.weights[0]
    added = like - found.decay * start.weights[0]
    if apart is not None:
        rank, which = apart.directions(found, images)
    elif images is not None:
        rank, which = min(images, len(found.directions)), ""
    else:
        rank, which = found.rank, ""
        if params.missed is not None:
            rank, which = found.holding(1 - params.missed), f" with all but {params.missed:g} of the squares"
        if rank > FULL * len(found.directions):
            rank, which = found.above_noise, " that stand above noise"
    flag = f"start decayed to {found.decay:.4g}, {rank} directions{which}"
    directions = found.directions[:rank].to(like).contiguous()
    way = tuple(at(point) for point in params.errors_at)
    return UpdateSpan(directions, added, None, way[params.errors_at.index(params.point)], way, flag)


@torch.no_grad()
def typical_features(front: FeatureExtractor, shape: tuple[int, int, int]) -> Tensor:
    """Return the features (32, f) of noise, roughly as large as features of images are; the same in every run.

    Args:
        front: maps images to features.
        shape: (C, H, W) of an image.
    """
    like = next(front.network.parameters())
    return front(torch.randn(TYPICAL, *shape, generator=torch.Generator().manual_seed(0)).to(like))


def separated(span: UpdateSpan, pictures: FeatureMaps, size: float, params: Params, parts: Parts) -> Separated:
    """Return the independent components of a span of features.

    Args:
        span: of the features.
        pictures: what the features are; their maps are no smaller than 3 x 3.
        size: root mean square of a feature.
        params: hyperparameters.
        parts: budget, reports and checkpoints of the run; this separation is the first of its parts.
    """
    held = below(FEATURES, parts.held)
    if held:
        return Separated.of(held, span.basis)
    parts.share = SEPARATION
    found = SourceSeparation(span, pictures, size, params.schedule, parts).run()
    cut = torch.tensor(parts.stopped)
    parts.share, parts.stopped = 1.0, False
    parts.begin(under(FEATURES, found.packed()) | {CUT: cut})
    return found
