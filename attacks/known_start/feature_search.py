"""The search for images whose features make up a difference, and lie in the span that it shows.

As in `attacks.known_start.search` the gates sharpen from the first step to the last. Here the candidates are images, on
cosines, and the front is their way to the coordinates on which the equation stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from attacks.kkt_family.one_cycle import OneCycle
from attacks.known_start.equation import Equation
from attacks.known_start.front import Cosines, Front
from attacks.known_start.params import FeatureParams
from attacks.known_start.search import REPORT_STEPS, SMALL, Found
from victims.equations.adjoint import neuron_norms
from victims.equations.spans import share_outside


class FeatureSearch:
    """One search from random images.

    The residual is weighted as in `Search`: columns by S_k^-q, rows by ||w_j||^-s, and layer 2 has one of its own. A
    candidate pays for the share of its features' energy outside the span of the difference's rows, for the share of
    its errors' energy outside that of the columns, and for its size on the cosines.

    Args:
        equation: what the features have to make up, at one point.
        front: the way from images to features, at the same point.
        shape: (C, H, W) of an image.
        m: the number of candidates.
        params: hyperparameters.
        generator: CPU generator of the start.
    """

    def __init__(
        self,
        equation: Equation,
        front: Front,
        shape: tuple[int, int, int],
        m: int,
        params: FeatureParams,
        generator: torch.Generator,
    ) -> None:
        self.equation, self.front, self.params = equation, front, params
        weight = equation.weight
        self.cosines = Cosines(shape, params.amplitude_power, weight)
        self.coordinates = torch.randn(m, *shape, generator=generator).to(weight).requires_grad_()
        outputs = len(equation.networks[0].weights[-1])
        chosen = torch.randn(m, outputs, generator=generator).to(weight)
        with torch.no_grad():
            inputs = self.front(self.images()) @ equation.basis
            errors, _ = equation.terms(inputs, chosen[None], params.alpha[1])
        sizes = float(errors.norm(dim=1).mean()) * float(inputs.norm(dim=1).mean())
        self.unit = float(weight.norm()) / (math.sqrt(m) * sizes)
        self.chosen = (SMALL * chosen).requires_grad_()
        groups = [([self.coordinates], params.lr), ([self.chosen], params.coefficient_lr)]
        self.cycle = OneCycle(groups, params.steps)

    def images(self) -> Tensor:
        """Return the candidates (m, C, H, W)."""
        return self.cosines.images(self.coordinates)

    @cached_property
    def weights(self) -> tuple[Tensor, Tensor, float]:
        """Weights of the residual's rows (h, 1), of its columns (r,), and of the bias beside the columns."""
        equation, power = self.equation, self.params.residual_power
        assert equation.bias is not None
        mean = equation.singular.square().mean().sqrt()
        rows = neuron_norms(equation.weight, equation.bias)[:, None] ** -self.params.neuron_power
        beside = float(equation.bias.norm() / mean)
        return rows, (equation.singular / mean) ** -power, beside**-power if beside > 0 else 1.0

    @cached_property
    def whole(self) -> Tensor:
        """The weighted square of the difference, a scalar tensor."""
        assert self.equation.bias is not None
        return self._square(self.equation.weight, self.equation.bias)

    def run(
        self,
        report: Callable[[int, float], None],
        expired: Callable[[int], bool] = lambda step: False,
        checkpoint: Callable[[Callable[[], dict[str, Tensor]]], None] = lambda state: None,
        state: dict[str, Tensor] | None = None,
    ) -> Found:
        """Search to the end, or until the budget is spent; see `Search.run`."""
        steps, (first, last) = self.params.steps, self.params.alpha
        done = self.cycle.restore(state) if state else 0
        for step in range(done + 1, steps + 1):
            if expired(step - 1):
                break
            self.cycle.zero_grad()
            self.objective(first * (last / first) ** ((step - 1) / steps)).backward()
            self.cycle.step()
            if step % REPORT_STEPS == 0 or step == steps:
                report(step, self.found().residual)
            checkpoint(self.cycle.state)
        return self.found()

    def objective(self, alpha: float) -> Tensor:
        """Return the weighted residual and what the candidates pay, a scalar tensor that can be differentiated."""
        equation, params = self.equation, self.params
        assert equation.bias is not None
        features = self.front(self.images())
        inputs = features @ equation.basis
        errors, second = equation.terms(inputs, self.unit * self.chosen[None], alpha)
        residual = self._square(equation.weight - errors.T @ inputs, equation.bias - errors.sum(0)) / self.whole
        left = (equation.second - second).square().sum() / equation.second.square().sum()
        outside = params.feature_span * share_outside(inputs, features)
        outside = outside + params.signal_span * share_outside(errors @ equation.error_basis, errors)
        outside = outside + params.prior * self.coordinates.square().flatten(1).mean(1)
        return residual + params.second_layer * left + outside.sum() / math.sqrt(equation.rank)

    @torch.no_grad()
    def found(self) -> Found:
        """Return where the search is; `inside` is the share of a candidate's features in their span."""
        equation, images = self.equation, self.images()
        features = self.front(images)
        inputs = features @ equation.basis
        errors, _ = equation.terms(inputs, self.unit * self.chosen[None], self.params.alpha[1])
        whole = equation.weight.norm()
        residual = float((equation.weight - errors.T @ inputs).norm() / whole)
        sizes = errors.norm(dim=1) * inputs.norm(dim=1) / whole
        return Found(images.flatten(1), sizes, 1 - share_outside(inputs, features), residual)

    def _square(self, weight: Tensor, bias: Tensor) -> Tensor:
        rows, columns, beside = self.weights
        return (weight * rows * columns).square().sum() + (bias * rows[:, 0] * beside).square().sum()
