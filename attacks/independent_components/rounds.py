"""Separation in rounds: an image whose errors the network explains is found, and the rest are separated anew.

Filters alone leave mixtures of pictures that are alike, such as digits or feature maps. So the network is asked too. A
descent on the joint likelihood of images and errors begins at what filters separate. After it the network explains
nearly all of the errors of an image, and less of those of a mixture. Images that are found so stay. The rest of the
span has fewer directions, and filters tell these apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from skimage.filters import threshold_otsu
from torch import Tensor

from attacks.independent_components.errors import SHARPNESS
from attacks.independent_components.likelihood import JointLikelihood
from attacks.independent_components.params import Schedule
from attacks.independent_components.pictures import Pictures
from attacks.independent_components.span import UpdateSpan
from attacks.optimisation.parts import CUT, Parts
from attacks.source_separation.unmixing import unmix
from victims.files import below, under

LEAST_MISSED = 1e-4
"""A smaller share counts as this one."""
FEWEST = 2
"""Fewer rows are no mixture."""
PATIENCE = 2
"""So many rounds in a row that are no likelier than one before are the last: a single one may be chance."""
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
        least: the share of its errors above which an image is found; it falls from round to round.
        cost: the negative logarithm of the joint likelihood; infinite before the first descent.
        diverged: whether a descent that followed was not finite, and was left out.
    """

    images: Tensor
    sure: Tensor
    found: Tensor
    settled: bool
    least: float = 1.0
    cost: float = math.inf
    diverged: bool = False

    @classmethod
    def begun(cls, basis: Tensor) -> Separated:
        """Return the beginning: the rows of the span, none of which is an image."""
        return cls(basis, torch.zeros(len(basis)).to(basis), torch.zeros(len(basis)).to(basis) > 0, settled=False)

    @classmethod
    def of(cls, held: dict[str, Tensor], like: Tensor) -> Separated:
        """Return what `packed` has written."""
        found = held["found"].to(like.device)
        images, sure = (held[name].to(like) for name in ("images", "sure"))
        settled, diverged = (bool(held[name]) for name in ("settled", "diverged"))
        return cls(images, sure, found, settled, float(held["least"]), float(held["cost"]), diverged)

    def packed(self) -> dict[str, Tensor]:
        """Return it as tensors by name. They are copies: the store takes no memory twice."""
        scalars = {name: getattr(self, name) for name in ("settled", "least", "cost", "diverged")}
        packed = {name: torch.tensor(value, dtype=torch.float64) for name, value in scalars.items()}
        return packed | {name: getattr(self, name).clone() for name in ("images", "sure", "found")}

    def flags(self, schedule: Schedule) -> tuple[str, ...]:
        """Return what a row says of it."""
        kept = (f"the network explains {int(self.found.sum())} of {len(self.found)}",) if schedule.rounds else ()
        return kept + (("a descent diverged and was left out",) if self.diverged else ())


@dataclass(frozen=True)
class SourceSeparation:
    """A separation of what one span holds.

    Attributes:
        span: the rows that are mixed, and what is known beside.
        pictures: what they are mixtures of.
        size: root mean square of an image's pixels.
        schedule: how long it goes on.
        parts: the parts of this run: separations, and a descent after each.
    """

    span: UpdateSpan
    pictures: Pictures
    size: float
    schedule: Schedule
    parts: Parts

    def packed(self) -> dict[str, Tensor]:
        """Return what `run` does as tensors by name, with whether the budget was spent."""
        return self.run().packed() | {CUT: torch.tensor(self.parts.stopped)}

    def run(self) -> Separated:
        """Return as many images as the span has directions.

        Where the network explains none of them after the first descent, what filters alone separate stands. Else the
        likeliest round stands, and the rounds end when `PATIENCE` in a row are no likelier.
        """
        parts, held = self.parts, self.parts.held
        now = Separated.of(held, self.span.basis) if held else Separated.begun(self.span.basis)
        if not self.schedule.rounds:
            return self._separate(now)
        best = Separated.of(below(BEST, held), self.span.basis) if held else now
        vain = int(held["vain"]) if held else 0
        likelihood = JointLikelihood(self.span, self.pictures, self.size)
        for index in range(int(held["index"]) if held else 0, 2 * self.schedule.rounds):
            counts = {"index": torch.tensor(index), "vain": torch.tensor(vain)}
            parts.begin(counts | now.packed() | under(BEST, best.packed()))
            if index % 2 == 0:
                now = self._separate(now)
                best = now if index == 0 else best
            else:
                now = self._descend(now, likelihood)
                if now.diverged:
                    return replace(best, diverged=True)
                if not now.found.any():
                    break
                vain = 0 if now.cost < best.cost else vain + 1
                best = best if vain else now
                if vain == PATIENCE or int((~now.found).sum()) < FEWEST:
                    break
            if parts.stopped:
                break
        return best

    def _separate(self, now: Separated) -> Separated:
        """Return it with the rows that are not found separated by what filters answer."""
        rest = ~now.found
        rows = now.images if bool(rest.all()) else torch.linalg.qr(now.images[rest].T).Q.T
        steps = self.schedule.steps, self.schedule.free_steps
        one = unmix(self.pictures.mixed(rows), steps, self.parts, self.pictures.density)
        new = one.mixture @ rows
        images, sure = now.images.clone(), now.sure.clone()
        images[rest] = new * self.size / new.square().mean(1, keepdim=True).sqrt()
        sure[rest] = one.contrast.to(sure)
        signed = self.pictures.signed(images, self.span)
        return replace(now, images=torch.where(rest[:, None], signed, images), sure=sure, settled=one.settled)

    def _descend(self, now: Separated, likelihood: JointLikelihood) -> Separated:
        """Return it after a descent of all images, with those found that the network explains."""
        images = likelihood.descend(now.images, self.schedule.round_steps, self.schedule.lr, self.parts)
        cost = float(likelihood.cost(likelihood.mixture(images), SHARPNESS))
        if not math.isfinite(cost):
            return replace(now, diverged=True)
        sure = likelihood.explained(images)
        least = min(now.least, max(likelihood.chance, between(sure)))
        return Separated(images, sure, sure > least, now.settled, least, cost)


def between(shares: Tensor) -> float:
    """Return the share that parts shares (r,) into two groups: of the least variance within, in the log of 1 - share.

    After Otsu 1979.
    """
    missed = (1 - shares).clamp_min(LEAST_MISSED).log().cpu().numpy()
    return 1 - math.exp(threshold_otsu(missed))
