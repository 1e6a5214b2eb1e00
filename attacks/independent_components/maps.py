"""Behind convolutions: the independent components of a span of features, and the images that have them.

The first fully connected layer sees feature maps phi(x_i), and what a training adds to it is sum_i D_i phi(x_i)': the
cocktail party again (after Kariyappa et al. 2023), with maps in the place of images. Maps of one image are as flat but
for edges as the image is, so that small filters tell maps from mixtures of them, each channel by itself. A map is not
negative behind a ReLU, which tells its sign; its length is not known. Then images are searched
from which the front makes maps that point in these directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attacks.independent_components.params import CocktailPartyFeaturesParams as Params
from attacks.independent_components.parts import Parts
from attacks.independent_components.responses import responses
from attacks.independent_components.unmixing import unmix
from attacks.known_start.front import FeatureExtractor
from attacks.optimisation.one_cycle import REPORT_STEPS, OneCycle
from victims.equations.row_space import CosineSpace

SMALL = 0.01
"""Standard deviation of the coordinates of the images that a search begins with."""


@dataclass(frozen=True)
class Components:
    """The components of a span of features.

    Attributes:
        features: (r, f), each a direction alone.
        settled: whether the separation came to its end.
    """

    features: Tensor
    settled: bool


def separated(basis: Tensor, maps: tuple[int, int, int], params: Params, parts: Parts) -> Components:
    """Return the independent components of a span of features, with the signs that a ReLU leaves.

    Args:
        basis: (r, f), rows that span the features.
        maps: (C, H, W) of the features, f = C H W; H and W are at least 3.
        params: hyperparameters.
        parts: of which this is the first.
    """
    if held := parts.held:
        return Components(held["features"].to(basis), bool(held["settled"]))
    answered = responses(basis.reshape(-1, 1, *maps[1:])).reshape(len(basis), -1)
    one = unmix(answered, (params.steps, 0), parts)
    features = one.mixture @ basis
    features = features * torch.where(features.sum(1, keepdim=True) < 0, -1.0, 1.0)
    parts.begin({"features": features, "settled": torch.tensor(one.settled)})
    return Components(features, one.settled)


def images_of(
    features: Tensor,
    front: FeatureExtractor,
    shape: tuple[int, int, int],
    params: Params,
    parts: Parts,
) -> tuple[Tensor, Tensor]:
    """Return images (r, C, H, W) whose features point in given directions, and the cosines (r,) of both.

    Args:
        features: (r, f).
        front: maps images to features.
        shape: (C, H, W) of an image.
        params: hyperparameters.
        parts: of which this is the last.
    """
    space = CosineSpace.of(shape, features)
    amplitudes = space.amplitudes(1.0)
    drawn = torch.randn(len(features), space.rank, generator=parts.ctx.generator)
    coordinates = (SMALL * drawn).to(features).requires_grad_()

    def found() -> tuple[Tensor, Tensor]:
        images = space.inputs(coordinates * amplitudes).view(-1, *shape)
        return images, F.cosine_similarity(front(images), features)

    cycle = OneCycle([([coordinates], params.lr)], params.image_steps)
    step = cycle.restore(parts.state) if parts.state else 0
    while step < params.image_steps and not parts.expired(step):
        cycle.zero_grad()
        missed = (1 - found()[1]).sum()
        missed.backward()
        cycle.step()
        step += 1
        if step % REPORT_STEPS == 0 or step == params.image_steps:
            parts.report(step, missed=float(missed.detach()) / len(features))
        parts.checkpoint(cycle.state)
    parts.end(step)
    with torch.no_grad():
        return found()
