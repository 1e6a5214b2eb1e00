"""Separation in rounds: an image whose errors the network explains is found, and the rest are separated anew.

A picture of d pixels tells only so many directions apart, some 300 of 3,072. So the network is asked too: from what
filters separate, a descent on the joint likelihood of images and errors. Errors of an image and those of a mixture are
then two groups, of which the network explains one nearly whole. What it explains stays; what is left of the span
without it has fewer directions, and filters tell them apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from skimage.filters import threshold_otsu
from torch import Tensor

from attacks.independent_components.errors import SHARPNESS
from attacks.independent_components.likelihood import JointLikelihood
from attacks.independent_components.orientation import oriented
from attacks.independent_components.params import CocktailPartyParams
from attacks.independent_components.parts import Parts
from attacks.independent_components.responses import responses
from attacks.independent_components.span import Span
from attacks.independent_components.unmixing import unmix
from attacks.optimisation.restarts import below, under

EXPLAINED = 0.7
"""An image is found only if the network explains this share of its errors."""
LEAST_MISSED = 1e-4
"""A smaller share counts as this one."""
FEWEST = 2
"""Fewer rows are no mixture."""
BEST = "best."
"""Prefix of the names of a checkpoint's tensors that belong to the likeliest round."""


@dataclass(frozen=True)
class Separated:
    """How far a separation is.

    Attributes:
        images: (r, d), of the pixels' size.
        sure: (r,) the share of an image's errors that is explained, without rounds the contrast of its responses.
        found: (r,) bool, whether the image stays.
        settled: whether the last separation came to its end.
        least: an image is found when so much of its errors is explained; it falls from round to round.
        cost: the negative logarithm of the joint likelihood; infinite before the first descent.
    """

    images: Tensor
    sure: Tensor
    found: Tensor
    settled: bool
    least: float = 1.0
    cost: float = math.inf

    @classmethod
    def begun(cls, basis: Tensor) -> Separated:
        """Return the beginning: the rows of the span, none of which is an image."""
        return cls(basis, torch.zeros(len(basis)).to(basis), torch.zeros(len(basis)).to(basis) > 0, settled=False)

    @classmethod
    def of(cls, held: dict[str, Tensor], like: Tensor) -> Separated:
        """Return what `packed` has written."""
        found = held["found"].to(like.device)
        images, sure = (held[name].to(like) for name in ("images", "sure"))
        return cls(images, sure, found, bool(held["settled"]), float(held["least"]), float(held["cost"]))

    def packed(self) -> dict[str, Tensor]:
        """Return it as tensors by name, copies that share no memory."""
        scalars = {"settled": self.settled, "least": self.least, "cost": self.cost}
        packed = {name: torch.tensor(value, dtype=torch.float64) for name, value in scalars.items()}
        return packed | {name: getattr(self, name).clone() for name in ("images", "sure", "found")}


@dataclass(frozen=True)
class Separation:
    """A separation of what one span holds.

    Attributes:
        span: the rows that are mixed, and what is known beside.
        shape: (C, H, W) of an image.
        params: hyperparameters.
        parts: the parts of this run: separations, and a descent after each.
    """

    span: Span
    shape: tuple[int, int, int]
    params: CocktailPartyParams
    parts: Parts

    def run(self) -> Separated:
        """Return as many images as the span has directions.

        Where the network explains none of them after the first descent, they are what filters alone separate. It ends
        when a round is no likelier than the one before, which then stands.
        """
        parts, held = self.parts, self.parts.held
        now = Separated.of(held, self.span.basis) if held else Separated.begun(self.span.basis)
        if not self.params.rounds:
            return self._separate(now)
        best = Separated.of(below(BEST, held), self.span.basis) if held else now
        likelihood = JointLikelihood(self.span, self.shape, self.params.pixel_size)
        for index in range(int(held["index"]) if held else 0, 2 * self.params.rounds):
            parts.begin({"index": torch.tensor(index)} | now.packed() | under(BEST, best.packed()))
            if index % 2 == 0:
                now = self._separate(now)
                best = now if index == 0 else best
            else:
                now = self._descend(now, likelihood)
                if not (now.found.any() and now.cost < best.cost):
                    break
                best = now
                if int((~now.found).sum()) < FEWEST:
                    break
            if parts.stopped:
                break
        return best

    def _separate(self, now: Separated) -> Separated:
        """Return it with the rows that are not found separated by what filters answer."""
        rest = ~now.found
        rows = now.images if bool(rest.all()) else torch.linalg.qr(now.images[rest].T).Q.T
        one = unmix(responses(rows.reshape(-1, *self.shape)), (self.params.steps, self.params.free_steps), self.parts)
        new = one.mixture @ rows
        images, sure = now.images.clone(), now.sure.clone()
        images[rest] = new * self.params.pixel_size / new.square().mean(1, keepdim=True).sqrt()
        sure[rest] = one.contrast.to(sure)
        signed = oriented(images, self.span.added, self.span.bias, self.span.network)
        return replace(now, images=torch.where(rest[:, None], signed, images), sure=sure, settled=one.settled)

    def _descend(self, now: Separated, likelihood: JointLikelihood) -> Separated:
        """Return it after a descent of all images, with those found that the network explains.

        Of a descent that diverges nothing is found.
        """
        images = likelihood.descend(now.images, self.params.round_steps, self.params.lr, self.parts)
        if not images.isfinite().all():
            return replace(now, found=torch.zeros_like(now.found))
        sure = likelihood.explained(images)
        cost = float(likelihood.cost(likelihood.mixture(images), SHARPNESS))
        least = min(now.least, max(EXPLAINED, between(sure)))
        return Separated(images, sure, sure > least, now.settled, least, cost)


def between(shares: Tensor) -> float:
    """Return the share between two groups of shares (r,) that are explained, by what they miss, on a scale of logs.

    The groups are those whose variances within are the least (Otsu 1979).
    """
    missed = (1 - shares).clamp_min(LEAST_MISSED).log().cpu().numpy()
    return 1 - math.exp(threshold_otsu(missed))
