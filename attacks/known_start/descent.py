"""What the searches on a known start share: restarts, the weighted residual, the descent while the gates sharpen."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from attacks.known_start.equation import Equation
from attacks.known_start.params import FeatureParams, Ranking, ResolvedParams
from attacks.optimisation.one_cycle import REPORT_STEPS, OneCycle
from attacks.optimisation.restarts import Restart, Restarts
from victims.equations.adjoint import neuron_norms


@dataclass(frozen=True)
class Decomposition:
    """What one search makes a difference up of.

    Attributes:
        candidates: (m, d).
        weights: (m,) what ranks a candidate: the share of its energy (of its errors, or of its features) in the span
            that the difference shows, or its weight in the batches.
        residual: ||W1 - c W1(0) - sum_i D_i x_i'|| / ||W1 - c W1(0)||.
        coefficients: (m, T, C) on the outputs, at each point; None where no later search begins with them.
    """

    candidates: Tensor
    weights: Tensor
    residual: float
    coefficients: Tensor | None = None


class Descent(ABC):
    """A search for what makes up a difference, by Adam.

    The residual's columns are weighted by S_k^-q and its rows by ||w_j||^-s, for S_k the singular values and w_j the
    rows of the difference. The gates sharpen geometrically from the first step on.

    Attributes:
        equation: what is to be made up.
        params: hyperparameters.
        cycle: the optimiser of what moves.
    """

    equation: Equation
    params: ResolvedParams | FeatureParams
    cycle: OneCycle

    @abstractmethod
    def objective(self, alpha: float) -> Tensor:
        """Return what is minimised with gates of sharpness alpha, a scalar tensor that can be differentiated."""

    @abstractmethod
    def found(self) -> Decomposition:
        """Return the candidates at which the search stands."""

    @abstractmethod
    def consistency(self) -> Tensor:
        """Return how far each candidate follows from the difference (m,)."""

    def run(
        self,
        report: Callable[[int, float], None],
        expired: Callable[[int], bool] = lambda step: False,
        checkpoint: Callable[[Callable[[], dict[str, Tensor]]], None] = lambda state: None,
        state: dict[str, Tensor] | None = None,
    ) -> Decomposition:
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
        """Return the gates' alpha at a step from 1 on: a_1 (a_2 / a_1)^((step - 1) / steps) for alpha = (a_1, a_2).

        So the last step comes near a_2, not to it.
        """
        first, last = self.params.alpha
        return first * math.exp(math.log(last / first) * (step - 1) / self.params.steps)

    @cached_property
    def relative(self) -> Tensor:
        """(r,) the singular values of the difference, relative to their root mean square."""
        return self.equation.singular / self.equation.singular.square().mean().sqrt()

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

    def unexplained(self, inputs: Tensor, errors: Tensor) -> Tensor:
        """Return the weighted relative square of what is left, a scalar tensor.

        Args:
            inputs: (m, r) on the basis.
            errors: (m, h) summed over the points.
        """
        bias = None if self.equation.bias is None else self.equation.bias - errors.sum(0)
        return self._square(self.equation.weight - errors.T @ inputs, bias) / self.whole

    def _square(self, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows, columns, beside = self.weights
        total = (weight * rows * columns).square().sum()
        return total if bias is None else total + (bias * rows[:, 0] * beside).square().sum()


def run_all(restarts: Restarts, begin: Callable[[], Descent], ranking: Ranking) -> None:
    """Run every restart that is left, one after the other.

    Args:
        restarts: gets each at its end.
        begin: draws the start of a search.
        ranking: all but "span" ask how far each candidate follows from the difference.
    """
    while restarts.next(1):
        search = begin()
        found = search.run(
            lambda step, residual: restarts.report(step, [residual]),
            restarts.expired,
            restarts.checkpoint,
            restarts.unfinished,
        )
        follows = None if ranking == "span" else search.consistency()
        restarts.end([Restart(found.candidates, found.weights, found.residual, follows, found.coefficients)])
