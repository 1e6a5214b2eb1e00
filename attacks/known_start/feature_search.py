"""The search for images whose features make up a difference, and lie in the span that it shows.

As in `attacks.known_start.search` the gates sharpen from the first step to the last. Here the candidates are images, on
cosines, and the front is their way to the coordinates on which the equation stands.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attacks.known_start.descent import Decomposition, Descent
from attacks.known_start.equation import Equation
from attacks.known_start.front import FeatureExtractor
from attacks.known_start.params import FeatureParams
from attacks.known_start.search import SMALL
from attacks.optimisation.one_cycle import OneCycle
from victims.equations.row_space import CosineSpace
from victims.equations.spans import share_outside


class FeatureSearch(Descent):
    """One search from random images.

    Layer 2 has a residual of its own. A candidate pays for the share of its features' energy outside the span of the
    difference's rows, for the share of its errors' energy outside the columns' span, and for its size on the cosines.

    Args:
        equation: what the features have to make up, at one point.
        front: the way from images to features, at the same point.
        shape: (C, H, W) of an image.
        m: the number of candidates.
        params: hyperparameters.
        generator: CPU generator of the start.
    """

    params: FeatureParams

    def __init__(
        self,
        equation: Equation,
        front: FeatureExtractor,
        shape: tuple[int, int, int],
        m: int,
        params: FeatureParams,
        generator: torch.Generator,
    ) -> None:
        self.equation, self.front, self.params = equation, front, params
        weight = equation.weight
        self.space = CosineSpace.of(shape, weight)
        self.amplitudes = self.space.amplitudes(params.amplitude_power).view(shape)
        self.coordinates = torch.randn(m, *shape, generator=generator).to(weight).requires_grad_()
        outputs = len(equation.networks[0].weights[-1])
        coefficients = torch.randn(m, outputs, generator=generator).to(weight)
        with torch.no_grad():
            inputs = self.front(self.images()) @ equation.basis
            errors, _ = equation.terms(inputs, coefficients[None], params.alpha[1])
        sizes = float(errors.norm(dim=1).mean()) * float(inputs.norm(dim=1).mean())
        self.unit = float(weight.norm()) / (math.sqrt(m) * sizes)
        self.coefficients = (SMALL * coefficients).requires_grad_()
        groups = [([self.coordinates], params.lr), ([self.coefficients], params.coefficient_lr)]
        self.cycle = OneCycle(groups, params.steps)

    def images(self) -> Tensor:
        """Return the candidates (m, C, H, W)."""
        scaled = self.coordinates * self.amplitudes
        return self.space.inputs(scaled.flatten(1)).view_as(scaled)

    def objective(self, alpha: float) -> Tensor:
        """Return the weighted residual and what the candidates pay, a scalar tensor that can be differentiated."""
        equation, params = self.equation, self.params
        features = self.front(self.images())
        inputs, errors, second = self._terms(features, alpha)
        residual = self.unexplained(inputs, errors)
        left = equation.second_unexplained(equation.second - second)
        outside = params.feature_span * share_outside(inputs, features)
        outside = outside + params.signal_span * share_outside(errors @ equation.error_basis, errors)
        outside = outside + params.prior * self.coordinates.square().flatten(1).mean(1)
        return residual + params.second_layer * left + outside.sum() / math.sqrt(equation.rank)

    @torch.no_grad()
    def found(self) -> Decomposition:
        """Return where the search is; a candidate's weight is the share of its features in their span."""
        equation, images = self.equation, self.images()
        features = self.front(images)
        inputs, errors, _ = self._terms(features, self.params.alpha[1])
        residual = float((equation.weight - errors.T @ inputs).norm() / equation.weight.norm())
        return Decomposition(images.flatten(1), 1 - share_outside(inputs, features), residual)

    @torch.no_grad()
    def consistency(self) -> Tensor:
        """Return how far each candidate's features follow from the difference (m,)."""
        inputs, errors, _ = self._terms(self.front(self.images()), self.params.alpha[1])
        return self.equation.consistency(inputs, errors)

    def _terms(self, features: Tensor, alpha: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return features (m, d) on the basis (m, r), the errors (m, h), and their sum in the next layer (h_2, h)."""
        inputs = features @ self.equation.basis
        return inputs, *self.equation.terms(inputs, self.unit * self.coefficients[None], alpha)
