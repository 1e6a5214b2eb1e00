"""The search for images that make up a difference: Adam, while the gates sharpen.

With sharp gates nearly every start ends in a poor minimum. With soft ones the network is nearly linear and candidates
part easily. So the gates sharpen geometrically from the first step to the last (graduated optimisation, Blake and
Zisserman 1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attacks.kkt_family.one_cycle import OneCycle
from attacks.known_start.equation import Equation
from attacks.known_start.params import ResolvedParams
from victims.equations.adjoint import neuron_norms

REPORT_STEPS = 20
SMALL = 0.1
"""Size of the coefficients at their start, in units in which m terms at right angles make up the difference."""


@dataclass(frozen=True)
class Found:
    """The end of one search.

    Attributes:
        candidates: (m, d).
        sizes: (m,) norms of their terms in the sum, relative to the difference's.
        inside: (m,) in [0, 1], the share of the energy of their errors in the span that the difference shows.
        residual: ||W1 - c W1(0) - sum_i D_i x_i'|| / ||W1 - c W1(0)||.
    """

    candidates: Tensor
    sizes: Tensor
    inside: Tensor
    residual: float


class Search:
    """One search from random candidates.

    The residual's columns are weighted by S_k^-q and its rows by ||w_j||^-s, for S_k the singular values and w_j the
    rows of the difference; layer 2 has a residual of its own; candidates are x_i = sum_k S_k^p u_ik v_k, and u moves. A
    candidate alone pays for the share of its errors' energy outside the span of the difference's columns.

    Args:
        equation: what the candidates have to make up.
        params: hyperparameters.
        generator: CPU generator of the start.
    """

    def __init__(self, equation: Equation, params: ResolvedParams, generator: torch.Generator) -> None:
        self.equation, self.params = equation, params
        weight, (d, rank), m = equation.weight, equation.basis.shape, params.candidates
        self.relative = equation.singular / equation.singular.square().mean().sqrt()
        scaling = self.relative**params.coordinate_power
        drawn = torch.randn(m, rank, generator=generator).to(weight)
        length = params.pixel_size * math.sqrt(d)
        self.scaling = scaling
        start = drawn * length / (drawn * scaling).norm(dim=1, keepdim=True)
        outputs = len(equation.networks[0].weights[-1])
        chosen = torch.randn(len(equation.networks), m, outputs, generator=generator).to(weight)
        errors, _ = equation.terms(start * scaling, chosen, params.alpha[1])
        self.unit = float(weight.norm()) / (math.sqrt(m) * float(errors.norm(dim=1).mean()) * length)
        self.coordinates, self.chosen = start.requires_grad_(), (SMALL * chosen).requires_grad_()
        groups = [([self.coordinates], params.lr), ([self.chosen], params.coefficient_lr)]
        self.cycle = OneCycle(groups, params.steps)

    @cached_property
    def weights(self) -> tuple[Tensor, Tensor, float]:
        """Weights of the residual's rows (h, 1), of its columns (r,), and of the bias beside the columns."""
        equation, bias = self.equation, self.equation.bias
        norms = neuron_norms(equation.weight, bias)
        power = self.params.residual_power
        size = 1.0 if bias is None else float(bias.norm() / equation.singular.square().mean().sqrt())
        beside = size**-power if size > 0 else 1.0
        return norms[:, None] ** -self.params.neuron_power, self.relative**-power, beside

    @cached_property
    def whole(self) -> Tensor:
        """The weighted square of the difference, a scalar tensor."""
        return self._square(self.equation.weight, self.equation.bias)

    def run(
        self,
        report: Callable[[int, float], None],
        expired: Callable[[int], bool] = lambda step: False,
        checkpoint: Callable[[Callable[[], dict[str, Tensor]]], None] = lambda state: None,
        state: dict[str, Tensor] | None = None,
    ) -> Found:
        """Search to the end, or until the budget is spent.

        Args:
            report: called every few steps, and after the last one, with the step and the residual.
            expired: asked before every step, with the steps done, whether to end there.
            checkpoint: offered, after every step, the state from which the search can go on.
            state: such a state of the same search; empty or None to begin.
        """
        steps = self.params.steps
        done = self.cycle.restore(state) if state else 0
        for step in range(done + 1, steps + 1):
            if expired(step - 1):
                break
            self.cycle.zero_grad()
            self.objective(self.sharpness(step)).backward()
            self.cycle.step()
            if step % REPORT_STEPS == 0 or step == steps:
                report(step, self.found().residual)
            checkpoint(self.cycle.state)
        return self.found()

    def sharpness(self, step: int) -> float:
        """Return the gates' alpha at a step from 1 on."""
        first, last = self.params.alpha
        return first * math.exp(math.log(last / first) * (step - 1) / self.params.steps)

    def objective(self, alpha: float) -> Tensor:
        """Return the weighted residual and the cost of leaving the span, a scalar tensor that can be differentiated."""
        equation = self.equation
        inputs, errors, second = self._terms(alpha)
        bias = None if equation.bias is None else equation.bias - errors.sum(0)
        residual = self._square(equation.weight - errors.T @ inputs, bias) / self.whole
        if self.params.second_layer:
            left = (equation.second - second).square().sum() / equation.second.square().sum()
            residual = residual + self.params.second_layer * left
        cost = self.params.signal_span / math.sqrt(equation.rank)
        return residual + cost * (1 - self._inside(errors)).sum() if cost else residual

    @torch.no_grad()
    def found(self) -> Found:
        """Return where the search is."""
        equation = self.equation
        inputs, errors, _ = self._terms(self.params.alpha[1])
        whole = equation.weight.norm()
        residual = float((equation.weight - errors.T @ inputs).norm() / whole)
        sizes = errors.norm(dim=1) * inputs.norm(dim=1) / whole
        return Found(inputs @ equation.basis.T, sizes, self._inside(errors), residual)

    def _terms(self, alpha: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return the candidates on the basis (m, r), their errors (m, h), and their sum in layer 2 (h_2, h)."""
        inputs = self.coordinates * self.scaling
        return inputs, *self.equation.terms(inputs, self.unit * self.chosen, alpha)

    def _square(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows, columns, beside = self.weights
        total = (weight * rows * columns).square().sum()
        return total if bias is None else total + (bias * rows[:, 0] * beside).square().sum()

    def _inside(self, errors: Tensor) -> Tensor:
        """Return the share (m,) of the energy of errors (m, h) in the span of the difference's columns."""
        energy = errors.square().sum(1).clamp_min(torch.finfo(errors.dtype).tiny)
        return (errors @ self.equation.error_basis).square().sum(1) / energy
