"""What the searches on a known start share: how their gates sharpen, and how the residual is weighted."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from attacks.known_start.descent import Decomposition, Descent
from attacks.known_start.equation import Equation
from attacks.known_start.params import KKTDeltaParams
from attacks.optimisation.one_cycle import OneCycle
from victims.equations.network import Network
from victims.ordinary.difference import difference

H, D, RANK, Q, S = 9, 12, 4, 0.6, 0.7


class Recorded(Descent):
    """A search in one unknown that keeps the alphas it is asked for."""

    def __init__(self, equation: Equation, steps: int = 5) -> None:
        given = KKTDeltaParams(steps=steps, alpha=(2.0, 64.0), residual_power=Q, neuron_power=S)
        self.equation, self.params = equation, given.resolved(images=3, moved=0.0)
        self.unknown, self.alphas = torch.ones((), requires_grad=True), list[float]()
        self.cycle = OneCycle([([self.unknown], 0.1)], steps)

    def objective(self, alpha: float) -> Tensor:
        self.alphas.append(alpha)
        return self.unknown.square()

    def found(self) -> Decomposition:
        return Decomposition(torch.zeros(1, D), torch.ones(1), 0.0)

    def consistency(self) -> Tensor:
        return torch.ones(1)


def equation_of(*, biases: bool) -> Equation:
    """The equation of two random networks in float64."""
    generator = torch.Generator().manual_seed(0)

    def network() -> Network:
        shapes = [(H, D), (8, H), (3, 8), (H,), (8,), (3,)]
        drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
        return Network(tuple(drawn[:3]), tuple(drawn[3:]) if biases else (None,) * 3)

    start, end = network(), network()
    return Equation.of(start, end, difference(end.weights[0], start.weights[0]), RANK, (0.5,))


def test_gates_grow_by_one_factor_a_step_and_end_a_step_before_the_last_alpha() -> None:
    search = Recorded(equation_of(biases=True))
    search.run(lambda step, residual: None)
    assert search.alphas == pytest.approx([2, 4, 8, 16, 32])  # and 64 would be next


@pytest.mark.parametrize("biases", [True, False])
def test_the_residual_is_weighted_by_neurons_and_singular_values(biases: bool) -> None:
    equation = equation_of(biases=biases)
    start, end = equation.ends
    weight = (end.weights[0] - equation.found.decay * start.weights[0]) @ equation.basis
    squares = weight.square().sum(1)
    bias = torch.zeros(H, dtype=torch.float64)
    if biases:
        assert start.biases[0] is not None
        assert end.biases[0] is not None
        bias = end.biases[0] - equation.found.decay * start.biases[0]
    norms = (squares + bias**2).sqrt()
    singular = torch.linalg.svdvals(weight)
    mean_singular = singular.square().mean().sqrt()
    rows, columns, beside = Recorded(equation).weights
    assert torch.allclose(rows, (norms / norms.square().mean().sqrt())[:, None] ** -S)
    assert torch.allclose(columns, (singular / mean_singular) ** -Q)
    assert beside == pytest.approx(float(bias.norm() / mean_singular) ** -Q if biases else 1)


def test_a_bias_that_did_not_move_has_no_infinite_weight() -> None:
    equation = equation_of(biases=True)
    still = replace(equation, bias=torch.zeros(H, dtype=torch.float64))
    assert Recorded(still).weights[2] == 1
    assert math.isfinite(float(Recorded(still).whole))
