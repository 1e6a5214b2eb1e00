"""The search for images that make up a difference: Adam, while the gates sharpen.

With sharp gates nearly every start ends in a poor minimum. With soft ones the network is nearly linear and candidates
part easily. So the gates sharpen geometrically from the first step on (graduated optimisation, Blake and Zisserman
1987).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attacks.crops.parts import Parts
from attacks.known_start.descent import Decomposition, Descent
from attacks.known_start.equation import Equation
from attacks.known_start.params import ResolvedParams
from attacks.optimisation.one_cycle import OneCycle
from attacks.optimisation.variation import relative_variation
from victims.equations.spans import share_outside

SMALL = 0.1
"""Size of the coefficients at their start, in units in which m terms at right angles make up the difference."""
BLACK, BLACK_LR = -1.8, 0.03
"""Of natural images that are standardised, where the search for the level of black begins, and its learning rate."""


class Search(Descent):
    """One search from random candidates, or from given ones and random ones.

    Layer 2 has a residual of its own; candidates are x_i = sum_k S_k^p u_ik v_k, and u moves. Each candidate pays for
    the share of its errors' energy outside the span of the difference's columns, and for its total variation, which is
    larger for a mixture of images than for an image. Where a training moved images, the parts of a candidate take its
    place in the difference, all with its coefficients; the level of black beside them is searched, too.

    Args:
        equation: what the candidates have to make up.
        params: hyperparameters.
        generator: CPU generator of the start.
        given: candidates (k, d) to begin with and their coefficients (k, T, C), k <= m; the others are drawn.
    """

    params: ResolvedParams

    def __init__(
        self,
        equation: Equation,
        params: ResolvedParams,
        generator: torch.Generator,
        given: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        self.equation, self.params = equation, params
        weight, (d, rank), m = equation.weight, equation.basis.shape, params.candidates
        scaling = self.relative**params.coordinate_power
        drawn = torch.randn(m, rank, generator=generator).to(weight)
        length = params.pixel_size * math.sqrt(d)
        self.scaling = scaling
        start = drawn * length / (drawn * scaling).norm(dim=1, keepdim=True)
        outputs = len(equation.networks[0].weights[-1])
        coefficients = torch.randn(len(equation.networks), m, outputs, generator=generator).to(weight)
        self.parts = Parts.of(equation.basis, equation.shape, params.crops, params.flips) if params.cuts else None
        self.black = weight.new_full((self.parts.channels if self.parts else 0,), BLACK)
        _, errors, _ = self._terms(start * scaling, params.alpha[1], coefficients)
        self.unit = float(weight.norm()) / (math.sqrt(m) * float(errors.norm(dim=1).mean()) * self._count * length)
        coefficients = SMALL * coefficients
        if given:
            candidates, own = given
            start[: len(own)] = candidates @ equation.basis / scaling
            coefficients[:, : len(own)] = own.movedim(1, 0) / self.unit
        self.coordinates, self.coefficients = start.requires_grad_(), coefficients.requires_grad_()
        groups = [([self.coordinates], params.lr), ([self.coefficients], params.coefficient_lr)]
        if params.crops:
            groups.append(([self.black.requires_grad_()], BLACK_LR))
        self.cycle = OneCycle(groups, params.steps)

    def objective(self, alpha: float) -> Tensor:
        """Return the weighted residual and the candidates' costs, a scalar tensor that can be differentiated."""
        equation, candidates = self.equation, self._candidates
        inputs, errors, second = self._terms(candidates, alpha)
        residual = self.unexplained(inputs, errors)
        if self.params.second_layer:
            left = equation.second_unexplained(equation.second - second)
            residual = residual + self.params.second_layer * left
        if self.params.total_variation:
            pictures = (candidates @ equation.basis.T).unflatten(1, equation.shape)
            residual = residual + self.params.total_variation * relative_variation(pictures).mean()
        cost = self.params.signal_span / math.sqrt(equation.rank)
        return residual + cost * self._outside(errors).sum() if cost else residual

    @torch.no_grad()
    def found(self) -> Decomposition:
        """Return where the search is."""
        equation, candidates = self.equation, self._candidates
        inputs, errors, _ = self._terms(candidates, self.params.alpha[1])
        residual = float((equation.weight - errors.T @ inputs).norm() / equation.weight.norm())
        own = self.unit * self.coefficients.movedim(1, 0) if self.params.agreement else None
        return Decomposition(candidates @ equation.basis.T, 1 - self._outside(errors), residual, own)

    @torch.no_grad()
    def consistency(self) -> Tensor:
        """Return how far each candidate follows from the difference (m,)."""
        inputs, errors, _ = self._terms(self._candidates, self.params.alpha[1])
        return self.equation.consistency(inputs, errors)

    @property
    def _candidates(self) -> Tensor:
        """The candidates on the basis (m, r)."""
        candidates: Tensor = self.coordinates * self.scaling
        return candidates

    @property
    def _count(self) -> int:
        """The number of parts of a candidate, s."""
        return len(self.parts) if self.parts else 1

    def _terms(self, candidates: Tensor, alpha: float, own: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Return what candidates stand for on the basis (m s, r), its errors (m s, h), and layer 2's sum (h_2, h).

        Args:
            candidates: (m, r) on the basis.
            alpha: sharpness of the gates.
            own: their coefficients (T, m, C); None for those of the search.
        """
        coefficients = self.unit * self.coefficients if own is None else own
        if self.parts is None:
            return candidates, *self.equation.terms(candidates, coefficients, alpha)
        inputs = self.parts.cut(candidates, self.black)
        return inputs, *self.equation.terms(inputs, coefficients.repeat_interleave(self._count, 1), alpha)

    def _outside(self, errors: Tensor) -> Tensor:
        """Return the share (m,) of the energy of errors (m s, h) outside the span of the difference's columns.

        Those of the parts of a candidate are summed.
        """
        summed = errors if self.parts is None else errors.unflatten(0, (-1, self._count)).sum(1)
        return share_outside(summed @ self.equation.error_basis, summed)
