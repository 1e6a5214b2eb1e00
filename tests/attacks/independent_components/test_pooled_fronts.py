"""Behind pooling: whether a front pools, and what images pay there for what its features do not tell."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attacking import context
from torch import Tensor, fx, nn

from attacks.independent_components.images import ImageSearch
from attacks.independent_components.params import POOLED, CocktailPartyFeaturesParams
from attacks.known_start.front import FeatureExtractor
from attacks.optimisation.parts import Parts
from victims.equations.architectures import FrontNetwork, seeded
from victims.spec import CNNSpec

SHAPE = (3, 8, 8)


class Functional(nn.Module):
    """A front of one's own, with a pool that is no module."""

    def __init__(self, pooled: bool) -> None:
        super().__init__()
        self.convolution, self.pooled = nn.Conv2d(3, 4, 3), pooled

    def forward(self, images: Tensor) -> Tensor:
        maps = self.convolution(images).relu()
        return F.max_pool2d(maps, 2) if self.pooled else maps


def built(pooled: bool) -> nn.Module:
    spec = CNNSpec(channels=(4,), halved="pooling" if pooled else "stride", hidden=(5,), outputs=2)
    return seeded(spec, SHAPE, 0)


def own(pooled: bool) -> nn.Module:
    return FrontNetwork(fx.symbolic_trace(Functional(pooled)), [nn.Linear(4, 2)])


def averaging(pooled: bool) -> nn.Module:
    front = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(3) if pooled else nn.Identity())
    return FrontNetwork(front, [nn.Linear(4, 2)])


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("kind", [built, own, averaging])
def test_a_front_tells_whether_it_pools(kind: Any, pooled: bool) -> None:
    assert FeatureExtractor(kind(pooled), 0).pools == pooled


def test_layers_that_stayed_are_no_pools() -> None:
    network = nn.Module()
    network.layers = nn.ModuleList([nn.Linear(192, 4), nn.Linear(4, 2)])
    assert not FeatureExtractor(network, 1).pools


@pytest.mark.parametrize(
    ("given", "pooled", "price"),
    [
        ({"start": "momentum"}, True, POOLED),
        ({"start": "checkpoints"}, True, POOLED),
        ({"start": "momentum"}, False, 0.0),
        ({}, True, 0.0),
        ({"start": "momentum", "smoothness": 0.0}, True, 0.0),
        ({"smoothness": 0.2}, False, 0.2),
    ],
)
def test_images_pay_for_what_pools_hide_where_a_start_stands_for_few_steps(
    given: dict[str, Any], pooled: bool, price: float
) -> None:
    """Their mean squared coordinate on cosines, at this price: the gradient by it is as much more along them."""
    params = CocktailPartyFeaturesParams(image_steps=30, total_variation=0.0, **given)
    free = CocktailPartyFeaturesParams(image_steps=30, total_variation=0.0, smoothness=price)
    extractor = FeatureExtractor(built(pooled).eval().requires_grad_(False), 0)
    features = extractor(torch.randn(2, *SHAPE, generator=torch.Generator().manual_seed(3)))

    def found(params: CocktailPartyFeaturesParams) -> Tensor:
        return ImageSearch(extractor, SHAPE, params, Parts(context(), 100), features).images_of(features)[0]

    torch.testing.assert_close(found(params), found(free))
    rough = found(CocktailPartyFeaturesParams(image_steps=30, total_variation=0.0, smoothness=0.0))
    assert (float(found(params).square().mean()) < 0.9 * float(rough.square().mean())) == (price > 0)
