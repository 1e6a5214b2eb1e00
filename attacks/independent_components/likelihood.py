"""The joint likelihood of images and of their errors, whose product the weights hold.

L = sum_i D_i x_i' is a product of as many images x_i as it has rank, and of their errors D_i. Any mixture M of the rows
that span the images makes such a product: M gives the images, and the images give the errors. Images are likely if
small filters answer sparsely to them. Errors are likely if they come back from the outputs of the network, through the
gates that their image opens. The rows are whitened, and those of M scaled such that the responses s_i to image i have
mean square 1; e_i is the share of D_i that is explained. Then the negative logarithm of the likelihood is

    d (sum_i mean_t -log p(s_it) - log |det M|) + h (sum_i (log |D_i| + log(1 - e_i) / 2) + log |det X|)

but for a constant, for d pixels, h neurons and X, the images on the coordinates of their span. p is the density of the
responses (`attacks.source_separation.density`). What is not explained of D_i is taken for normal noise, of the
size that fits best. The determinants keep images apart, and errors.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from attacks.independent_components.errors import SHARPNESS, chance, explained
from attacks.independent_components.pictures import Pictures
from attacks.independent_components.span import UpdateSpan
from attacks.optimisation.one_cycle import REPORT_STEPS, OneCycle
from attacks.optimisation.parts import Parts
from attacks.source_separation.responses import thinned
from attacks.source_separation.unmixing import whitening_of
from victims.recipes.geometric import geometric

RESPONSES = 5000
"""Where there are more responses to an image, a part of them is taken, not smaller than this: neighbours are alike."""
SOFTEST = 2.0
"""Sharpness of the gates at the beginning of a descent."""
MOST = 0.9999
"""A larger share counts as this one, so that no error is infinitely likely."""


class JointLikelihood:
    """The likelihood on one span.

    Args:
        span: the rows that are mixed, L, and the networks that explain errors.
        pictures: what the rows are mixtures of.
        size: root mean square of an image's pixels.
    """

    def __init__(self, span: UpdateSpan, pictures: Pictures, size: float) -> None:
        basis = span.basis
        self.basis, self.added = basis, basis @ span.added.T
        self.networks = tuple(network.on_coordinates(basis.T) for network in span.way)
        answered = pictures.responses(basis)
        self.density = pictures.density
        thin = thinned(answered, RESPONSES, self.density.channels)
        whitening = whitening_of(thin)
        self.whitening, self.white = whitening.to(basis), (whitening @ thin.double()).to(basis)
        self.length = size * basis.shape[1] ** 0.5

    def images(self, mixture: Tensor) -> Tensor:
        """Return the images (r, d) that a mixture (r, r) of the white rows makes, each of the pixels' size."""
        return self._coordinates(mixture) @ self.basis

    def mixture(self, images: Tensor) -> Tensor:
        """Return the mixture (r, r) that makes images (r, d), with responses of mean square 1."""
        found = torch.linalg.solve(self.whitening, images @ self.basis.T, left=False)
        scaled: Tensor = found / (found @ self.white).square().mean(1, keepdim=True).sqrt()
        return scaled

    def explained(self, images: Tensor) -> Tensor:
        """Return the share (r,) of each image's errors that the networks explain."""
        coordinates = images @ self.basis.T
        return explained(coordinates, self._held(coordinates), self.networks)

    @property
    def chance(self) -> float:
        """The share of its errors that a mixture can have explained by chance."""
        outputs = sum(network.outputs for network in self.networks)
        return chance(len(self.basis), outputs, self.added.shape[1])

    def cost(self, mixture: Tensor, sharpness: float) -> Tensor:
        """Return the negative logarithm of the likelihood, per pixel and image: a scalar tensor with a gradient.

        Args:
            mixture: (r, r) of the white rows.
            sharpness: of the gates.
        """
        components = mixture @ self.white
        sizes = components.square().mean(1, keepdim=True).sqrt()
        pictures = self.density.cost(components, sizes) - torch.linalg.slogdet(mixture / sizes).logabsdet
        errors = self.errors(self._coordinates(mixture), sharpness)
        (h,), (rank, d) = self.added.shape[1:], self.basis.shape
        cost: Tensor = (pictures + errors * h / d) / rank
        return cost

    def errors(self, coordinates: Tensor, sharpness: float) -> Tensor:
        """Return the negative logarithm of the likelihood of the errors, per neuron: a scalar tensor with a gradient.

        Args:
            coordinates: (r, r) of the images on the basis, each of the pixels' size.
            sharpness: of the gates.
        """
        held = self._held(coordinates)
        shares = explained(coordinates, held, self.networks, sharpness).clamp(max=MOST)
        likely = (held.norm(dim=1).log() + torch.log1p(-shares) / 2).sum()
        found: Tensor = likely + torch.linalg.slogdet(coordinates).logabsdet
        return found

    def descend(self, images: Tensor, steps: int, lr: float, parts: Parts) -> Tensor:
        """Return the images (r, d) after so many steps on the likelihood, while the gates sharpen.

        Args:
            images: (r, d), linearly independent, where to begin.
            steps: of Adam.
            lr: highest learning rate of the mixture's entries.
            parts: budget, reports and checkpoints of the run; this descent is one of its parts.
        """
        mixture = self.mixture(images).requires_grad_()
        cycle = OneCycle([([mixture], lr)], steps)
        step = cycle.restore(parts.state) if parts.state else 0
        while step < steps and not parts.expired(step):
            cycle.zero_grad()
            cost = self.cost(mixture, geometric((SOFTEST, SHARPNESS), step, steps))
            cost.backward()
            cycle.step()
            step += 1
            if step % REPORT_STEPS == 0 or step == steps:
                parts.report(step, likelihood=float(cost.detach()))
            parts.checkpoint(cycle.state)
        parts.end(step)
        return self.images(mixture.detach())

    def _coordinates(self, mixture: Tensor) -> Tensor:
        """Return the images' coordinates (r, r) on the basis."""
        coordinates: Tensor = self.length * F.normalize(mixture @ self.whitening)
        return coordinates

    def _held(self, coordinates: Tensor) -> Tensor:
        """Return the errors (r, h) whose product with the images is L."""
        held: Tensor = torch.linalg.solve_ex(coordinates.T, self.added).result  # no check that the host waits for
        return held
