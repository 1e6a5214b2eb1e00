"""The search for images that make up a difference: Adam, while the gates sharpen.

With sharp gates nearly every start ends in a poor minimum. With soft ones the network is nearly linear and candidates
part easily. So the gates sharpen geometrically from the first step on (graduated optimisation, Blake and Zisserman
1987).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attacks.known_start.descent import Decomposition, Descent
from attacks.known_start.equation import Equation
from attacks.known_start.params import ResolvedParams
from attacks.optimisation.one_cycle import OneCycle
from attacks.optimisation.variation import relative_variation
from victims.equations.spans import share_outside

SMALL = 0.1
"""Size of the coefficients at their start, in units in which m terms at right angles make up the difference."""


class Search(Descent):
    """One search from random candidates.

    Layer 2 has a residual of its own; candidates are x_i = sum_k S_k^p u_ik v_k, and u moves. Each candidate pays for
    the share of its errors' energy outside the span of the difference's columns, and for its total variation, which is
    larger for a mixture of images than for an image.

    Args:
        equation: what the candidates have to make up.
        params: hyperparameters.
        generator: CPU generator of the start.
    """

    params: ResolvedParams

    def __init__(self, equation: Equation, params: ResolvedParams, generator: torch.Generator) -> None:
        self.equation, self.params = equation, params
        weight, (d, rank), m = equation.weight, equation.basis.shape, params.candidates
        scaling = self.relative**params.coordinate_power
        drawn = torch.randn(m, rank, generator=generator).to(weight)
        length = params.pixel_size * math.sqrt(d)
        self.scaling = scaling
        start = drawn * length / (drawn * scaling).norm(dim=1, keepdim=True)
        outputs = len(equation.networks[0].weights[-1])
        coefficients = torch.randn(len(equation.networks), m, outputs, generator=generator).to(weight)
        errors, _ = equation.terms(start * scaling, coefficients, params.alpha[1])
        self.unit = float(weight.norm()) / (math.sqrt(m) * float(errors.norm(dim=1).mean()) * length)
        self.coordinates, self.coefficients = start.requires_grad_(), (SMALL * coefficients).requires_grad_()
        groups = [([self.coordinates], params.lr), ([self.coefficients], params.coefficient_lr)]
        self.cycle = OneCycle(groups, params.steps)

    def objective(self, alpha: float) -> Tensor:
        """Return the weighted residual and the candidates' costs, a scalar tensor that can be differentiated."""
        equation = self.equation
        inputs, errors, second = self._terms(alpha)
        residual = self.unexplained(inputs, errors)
        if self.params.second_layer:
            left = equation.second_unexplained(equation.second - second)
            residual = residual + self.params.second_layer * left
        if self.params.total_variation:
            pictures = (inputs @ equation.basis.T).unflatten(1, equation.shape)
            residual = residual + self.params.total_variation * relative_variation(pictures).mean()
        cost = self.params.signal_span / math.sqrt(equation.rank)
        return residual + cost * self._outside(errors).sum() if cost else residual

    @torch.no_grad()
    def found(self) -> Decomposition:
        """Return where the search is."""
        equation = self.equation
        inputs, errors, _ = self._terms(self.params.alpha[1])
        residual = float((equation.weight - errors.T @ inputs).norm() / equation.weight.norm())
        return Decomposition(inputs @ equation.basis.T, 1 - self._outside(errors), residual)

    @torch.no_grad()
    def consistency(self) -> Tensor:
        """Return how far each candidate follows from the difference (m,)."""
        inputs, errors, _ = self._terms(self.params.alpha[1])
        return self.equation.consistency(inputs, errors)

    def _terms(self, alpha: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return the candidates on the basis (m, r), their errors (m, h), and their sum in layer 2 (h_2, h)."""
        inputs = self.coordinates * self.scaling
        return inputs, *self.equation.terms(inputs, self.unit * self.coefficients, alpha)

    def _outside(self, errors: Tensor) -> Tensor:
        """Return the share (m,) of the energy of errors (m, h) outside the span of the difference's columns."""
        return share_outside(errors @ self.equation.error_basis, errors)
