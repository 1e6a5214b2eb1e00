"""The images whose feature maps are given components, each by itself and all together.

Many images have nearly the same maps, so that each pays for its total variation, which is a prior: scenes are smooth.
What filters and layers separate may still be mixtures of a few maps. No image has these, so all images are searched
together in rounds: from the images nearest to the components a descent begins on

    sum_i (log |D_i| + log(1 - e_i) / 2) + log |det A| + w sum_i o_i + v sum_i TV(x_i),

the errors' part of the joint likelihood (`attacks.independent_components.likelihood`) for the features phi(x_i), whose
coordinates in their span are the rows of A; D_i are the errors, and e_i is the share of them that the network explains.
o_i is the share of the squares of phi(x_i) outside of the span, which is small for a training image (after Petrov et
al. 2024, DAGER). Its price w grows during a descent. The features of the images that it ends at are the components of
the next round.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from attacks.independent_components.errors import SHARPNESS
from attacks.independent_components.likelihood import SOFTEST, JointLikelihood
from attacks.independent_components.params import CocktailPartyFeaturesParams as Params
from attacks.known_start.front import FeatureExtractor
from attacks.optimisation.one_cycle import REPORT_STEPS, OneCycle
from attacks.optimisation.parts import CUT, Parts
from attacks.optimisation.variation import relative_variation
from victims.equations.row_space import CosineSpace
from victims.equations.spans import share_outside
from victims.files import below, under
from victims.recipes.geometric import geometric

JOINT = "joint."
"""Prefix of the names of a checkpoint's tensors that belong to the joint rounds."""
NEAREST_STEPS, JOINT_STEPS = 100, 150
"""Of a joint round: steps to the images nearest to the components, and of the descent from there."""
JOINT_LR = 0.1
"""The highest learning rate of that descent, of the images' coordinates on cosines."""
OUTSIDE = (1.0, 10.0)
"""Price of what lies outside of the span, at the beginning of that descent and at its end."""
UNTIL = 0.9
"""Share of a budget that all before the last search may spend."""
SMALL = 0.01
"""Standard deviation of the coordinates of the images that a search begins with."""


class ImageSearch:
    """Searches for images by their features.

    Args:
        front: maps images to features.
        shape: (C, H, W) of an image.
        params: hyperparameters.
        parts: budget, reports and checkpoints of the run; each search is one of its parts.
        like: of the device and precision of the features.
    """

    def __init__(
        self, front: FeatureExtractor, shape: tuple[int, int, int], params: Params, parts: Parts, like: Tensor
    ) -> None:
        self.front, self.shape, self.params, self.parts = front, shape, params, parts
        self.space = CosineSpace.of(shape, like)
        self.amplitudes = self.space.amplitudes(1.0)
        self.smoothness = params.smoothness_behind(front.pools)

    def images_of(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return images (r, C, H, W) whose features point in given directions (r, f), and the cosines (r,) of both."""
        images = self._images(self._nearest(features, self.params.image_steps))
        with torch.no_grad():
            return images, F.cosine_similarity(self.front(images), features)

    def jointly(self, features: Tensor, likelihood: JointLikelihood) -> Tensor:
        """Return the features (r, f) in their span to which the joint rounds bring given ones.

        Args:
            features: (r, f), as many as the span has directions.
            likelihood: on that span.
        """
        parts, rounds = self.parts, self.params.joint_rounds
        held = below(JOINT, parts.held)
        rest = {name: value for name, value in parts.held.items() if not name.startswith(JOINT)}
        features = held.get("features", features).to(features)
        coordinates = held["coordinates"].to(features) if "coordinates" in held else None
        parts.share = UNTIL
        for index in range(int(held.get("index", 0)), 2 * rounds):
            if parts.stopped:
                break
            parts.begin(rest | under(JOINT, _packed(index, features, coordinates)))
            if coordinates is None:
                coordinates = self._nearest(features, NEAREST_STEPS)
                continue
            coordinates = self._descend(coordinates, likelihood)
            with torch.no_grad():
                inside = self.front(self._images(coordinates)) @ likelihood.basis.T
            if not inside.isfinite().all():
                break  # what was there before a descent that diverged stands
            features, coordinates = inside @ likelihood.basis, None
        cut = bool(rest.get(CUT, False)) or parts.stopped
        parts.begin(rest | {CUT: torch.tensor(cut)} | under(JOINT, _packed(2 * rounds, features, None)))
        parts.share, parts.stopped = 1.0, False
        return features

    def _nearest(self, features: Tensor, steps: int) -> Tensor:
        """Return the coordinates (r, k) of images whose features point in given directions (r, f)."""
        size = len(features), self.space.rank
        # a search that goes on has drawn before
        drawn = torch.zeros(size) if self.parts.state else torch.randn(size, generator=self.parts.ctx.generator)

        def missed(images: Tensor, step: int) -> Tensor:
            return (1 - F.cosine_similarity(self.front(images), features)).sum()

        return self._searched((SMALL * drawn).to(features), missed, (steps, self.params.lr), "missed")

    def _descend(self, coordinates: Tensor, likelihood: JointLikelihood) -> Tensor:
        """Return the coordinates (r, k) of images after a joint descent."""

        def cost(images: Tensor, step: int) -> Tensor:
            features = self.front(images)
            inside = features @ likelihood.basis.T
            sized = likelihood.length * F.normalize(inside)
            errors = likelihood.errors(sized, geometric((SOFTEST, SHARPNESS), step, JOINT_STEPS))
            price = geometric(OUTSIDE, step, JOINT_STEPS)
            return errors + price * share_outside(inside, features).sum()

        return self._searched(coordinates, cost, (JOINT_STEPS, JOINT_LR), "likelihood")

    def _searched(
        self, begin: Tensor, cost: Callable[[Tensor, int], Tensor], cycle: tuple[int, float], figure: str
    ) -> Tensor:
        """Return coordinates (r, k) after a descent, one part of the run, on a cost and what images pay for roughness.

        Args:
            begin: (r, k).
            cost: from images (r, C, H, W) and the step to a scalar.
            cycle: the number of steps, and the highest learning rate.
            figure: what the cost is called in reports.
        """
        (steps, lr), parts = cycle, self.parts
        coordinates = begin.clone().requires_grad_()
        descent = OneCycle([([coordinates], lr)], steps)
        step = descent.restore(parts.state) if parts.state else 0
        while step < steps and not parts.expired(step):
            descent.zero_grad()
            images = self._images(coordinates)
            one = cost(images, step)
            rough = self.smoothness * coordinates.square().mean(1).sum()
            (one + self.params.total_variation * relative_variation(images).sum() + rough).backward()
            descent.step()
            step += 1
            if step % REPORT_STEPS == 0 or step == steps:
                parts.report(step, **{figure: float(one.detach()) / len(coordinates)})
            parts.checkpoint(descent.state)
        parts.end(step)
        return coordinates.detach()

    def _images(self, coordinates: Tensor) -> Tensor:
        """Return the images (r, C, H, W) of coordinates (r, k) on cosines."""
        return self.space.inputs(coordinates * self.amplitudes).view(-1, *self.shape)


def _packed(index: int, features: Tensor, coordinates: Tensor | None) -> dict[str, Tensor]:
    """Return how far the joint rounds are, as tensors by name; they are copies, for the store takes no memory twice."""
    packed = {"index": torch.tensor(index), "features": features.clone()}
    return packed if coordinates is None else packed | {"coordinates": coordinates.clone()}
