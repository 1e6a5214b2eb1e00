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

REPORT_STEPS = 20
SMALLEST_NEURON = 0.02
"""Norm, relative to the root mean square, under which a neuron counts as small as this."""
SMALL = 0.1
"""Size of the coefficients at their start, in units in which m terms at right angles make up the difference."""


@dataclass(frozen=True)
class Settings:
    """How the residual is weighted and descended; `KKTDeltaParams` says what each is."""

    steps: int
    lr: float
    coefficient_lr: float
    alpha: tuple[float, float]
    pixel_size: float
    coordinate_power: float
    residual_power: float
    neuron_power: float
    second_layer: float
    signal_span: float


@dataclass(frozen=True)
class Found:
    """The end of one search.

    Attributes:
        candidates: (m, d).
        sizes: (m,) norms of their terms in the sum, relative to the difference's.
        inside: (m,) in [0, 1], the share of the energy of their signals in the span that the difference shows.
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
    candidate alone pays for the share of its signal's energy outside the span of the difference's columns.

    Args:
        equation: what the candidates have to make up.
        m: how many there are.
        settings: see `Settings`.
        generator: CPU generator of the start.
    """

    def __init__(self, equation: Equation, m: int, settings: Settings, generator: torch.Generator) -> None:
        self.equation, self.settings = equation, settings
        weight, (d, rank) = equation.weight, equation.basis.shape
        self.relative = equation.singular / equation.singular.square().mean().sqrt()
        scaling = self.relative**settings.coordinate_power
        drawn = torch.randn(m, rank, generator=generator).to(weight)
        length = settings.pixel_size * math.sqrt(d)
        self.scaling = scaling
        start = drawn * length / (drawn * scaling).norm(dim=1, keepdim=True)
        outputs = len(equation.networks[0].weights[-1])
        chosen = torch.randn(len(equation.networks), m, outputs, generator=generator).to(weight)
        signals, _ = equation.terms(start * scaling, chosen, settings.alpha[1])
        self.unit = float(weight.norm()) / (math.sqrt(m) * float(signals.norm(dim=1).mean()) * length)
        self.coordinates, self.chosen = start.requires_grad_(), (SMALL * chosen).requires_grad_()
        groups = [([self.coordinates], settings.lr), ([self.chosen], settings.coefficient_lr)]
        self.cycle = OneCycle(groups, settings.steps)

    @cached_property
    def weights(self) -> tuple[Tensor, Tensor, float]:
        """Weights of the residual's rows (h, 1), of its columns (r,), and of the bias beside the columns."""
        equation, bias = self.equation, self.equation.bias
        squares = equation.weight.square().sum(1) + (0 if bias is None else bias.square())
        norms = (squares / squares.mean()).sqrt().clamp_min(SMALLEST_NEURON)
        power = self.settings.residual_power
        size = 1.0 if bias is None else float(bias.norm() / equation.singular.square().mean().sqrt())
        beside = size**-power if size > 0 else 1.0
        return norms[:, None] ** -self.settings.neuron_power, self.relative**-power, beside

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
        steps = self.settings.steps
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
        first, last = self.settings.alpha
        return first * math.exp(math.log(last / first) * (step - 1) / self.settings.steps)

    def objective(self, alpha: float) -> Tensor:
        """Return the weighted residual and the cost of leaving the span, a scalar tensor that can be differentiated."""
        equation = self.equation
        inputs, signals, second = self._terms(alpha)
        bias = None if equation.bias is None else equation.bias - signals.sum(0)
        residual = self._square(equation.weight - signals.T @ inputs, bias) / self.whole
        if self.settings.second_layer:
            left = (equation.second - second).square().sum() / equation.second.square().sum()
            residual = residual + self.settings.second_layer * left
        cost = self.settings.signal_span / math.sqrt(equation.rank)
        return residual + cost * (1 - self._inside(signals)).sum() if cost else residual

    @torch.no_grad()
    def found(self) -> Found:
        """Return where the search is."""
        equation = self.equation
        inputs, signals, _ = self._terms(self.settings.alpha[1])
        whole = equation.weight.norm()
        residual = float((equation.weight - signals.T @ inputs).norm() / whole)
        sizes = signals.norm(dim=1) * inputs.norm(dim=1) / whole
        return Found(inputs @ equation.basis.T, sizes, self._inside(signals), residual)

    def _terms(self, alpha: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return the candidates on the basis (m, r), their signals (m, h), and their sum in layer 2 (h_2, h)."""
        inputs = self.coordinates * self.scaling
        return inputs, *self.equation.terms(inputs, self.unit * self.chosen, alpha)

    def _square(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows, columns, beside = self.weights
        total = (weight * rows * columns).square().sum()
        return total if bias is None else total + (bias * rows[:, 0] * beside).square().sum()

    def _inside(self, signals: Tensor) -> Tensor:
        """Return the share (m,) of the energy of signals (m, h) in the span of the difference's columns."""
        energy = signals.square().sum(1).clamp_min(torch.finfo(signals.dtype).tiny)
        return (signals @ self.equation.signal_basis).square().sum(1) / energy
