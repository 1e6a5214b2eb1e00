"""Separation in rounds: an image whose errors the network explains is found, and the rest are separated anew.

A picture of d pixels tells only so many directions apart, some 300 of 3,072. So the network is asked too: from what
filters separate, a descent on the joint likelihood of images and errors. What the network explains then stays; what is
left of the span without it has fewer directions, and filters tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attacks.independent_components.likelihood import JointLikelihood
from attacks.independent_components.orientation import oriented
from attacks.independent_components.params import CocktailPartyParams
from attacks.independent_components.parts import Parts
from attacks.independent_components.responses import responses
from attacks.independent_components.span import Span
from attacks.independent_components.unmixing import unmix

EXPLAINED = 0.8
"""An image is found when the network explains this share of its errors."""
FEWEST = 2
"""Fewer rows are no mixture."""


@dataclass(frozen=True)
class Separated:
    """How far a separation is.

    Attributes:
        images: (r, d), of the pixels' size.
        sure: (r,) the share of an image's errors that is explained, without rounds the contrast of its responses.
        found: (r,) bool, whether the image stays.
        settled: whether the last separation came to its end.
    """

    images: Tensor
    sure: Tensor
    found: Tensor
    settled: bool

    @classmethod
    def begun(cls, basis: Tensor) -> Separated:
        """Return the beginning: the rows of the span, none of which is an image."""
        return cls(basis, torch.zeros(len(basis)).to(basis), torch.zeros(len(basis)).to(basis) > 0, settled=False)

    @classmethod
    def of(cls, held: dict[str, Tensor], like: Tensor) -> Separated:
        """Return what `packed` has written."""
        found = held["found"].to(like.device)
        return cls(held["images"].to(like), held["sure"].to(like), found, bool(held["settled"]))

    def packed(self) -> dict[str, Tensor]:
        """Return it as tensors by name."""
        settled = torch.tensor(self.settled)
        return {"images": self.images, "sure": self.sure, "found": self.found, "settled": settled}


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
        when a round finds no more images than the one before.
        """
        parts, held = self.parts, self.parts.held
        now = Separated.of(held, self.span.basis) if held else Separated.begun(self.span.basis)
        if not self.params.rounds:
            return self._separate(now)
        likelihood = JointLikelihood(self.span, self.shape, self.params.pixel_size)
        for index in range(int(held["index"]) if held else 0, 2 * self.params.rounds):
            parts.begin({"index": torch.tensor(index)} | now.packed())
            following = self._descend(now, likelihood) if index % 2 else self._separate(now)
            if index == 1 and not following.found.any():
                break
            more = int(following.found.sum()) > int(now.found.sum())
            now = following
            if parts.stopped or (index % 2 and (not more or int((~now.found).sum()) < FEWEST)):
                break
        return now

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
        return Separated(torch.where(rest[:, None], signed, images), sure, now.found, one.settled)

    def _descend(self, now: Separated, likelihood: JointLikelihood) -> Separated:
        """Return it after a descent of all images, with those found that the network explains."""
        images = likelihood.descend(now.images, self.params.round_steps, self.params.lr, self.parts)
        sure = likelihood.explained(images)
        return Separated(images, sure, sure > EXPLAINED, now.settled)
