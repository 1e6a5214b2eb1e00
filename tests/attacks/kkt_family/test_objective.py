"""What the fast solver minimises, written out: its slopes in the first step against central differences in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from attacks.kkt_family.coefficients import free_coefficients
from attacks.kkt_family.params import SearchParams
from attacks.kkt_family.problem import Problem
from attacks.kkt_family.search import Start, _residual, search
from attacks.optimisation.one_cycle import OneCycle
from victims.equations.network import Network
from victims.equations.row_space import RowSpace

D, H, RANK, M, UNIT = 7, 10, 4, 5, 0.3
P, Q, S = 0.6, 0.3, 0.8
"""The powers of coordinates, of the residual's columns, and of its rows."""
GENERATOR = torch.Generator().manual_seed(0)


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


BASIS = torch.linalg.qr(drawn(D, RANK)).Q
SINGULAR = torch.tensor([4.0, 2.0, 1.0, 0.5], dtype=torch.float64)
FIRST, BIAS = drawn(H, RANK) * SINGULAR, drawn(H)
SECOND, LAST = drawn(8, 3) @ drawn(3, H), drawn(2, 8)  # layer 2 shows three directions
PROBLEM = Problem(Network((FIRST @ BASIS.T, SECOND, LAST), (BIAS, None, None)), RowSpace(BASIS, SINGULAR, gap=True))
START, CHOSEN = drawn(M, RANK), drawn(M, 2)
COSTS = {"none": {}, "sparsity": {"sparsity": 0.7}, "spans": {"signal_span": 0.5, "activation_span": 0.4}}


def params(**costs: float) -> SearchParams:
    powers = {"coordinate_power": P, "residual_power": Q, "neuron_power": S, "alpha": 1e7}
    return SearchParams(steps=1, dtype="float64", layer_weights=(1.0, 0.5, 0.25), **(powers | costs))  # type: ignore[arg-type]


def outside(vectors: Tensor, columns: Tensor) -> Tensor:
    """Return the sum of the shares of the energy of vectors (m, h) that no combination of columns (h, r) has."""
    inside = vectors @ columns @ torch.linalg.pinv(columns)
    return ((vectors - inside).square().sum(1) / vectors.square().sum(1)).sum()


def objective(start: Tensor, chosen: Tensor, sparsity: float, signal_span: float, activation_span: float) -> float:
    """Return what is minimised at coordinates (m, r) and variables (m, 2) of free coefficients."""
    relative = SINGULAR / SINGULAR.square().mean().sqrt()
    inputs, errors_3 = start * relative**P, UNIT * chosen
    active = (inputs @ FIRST.T + BIAS).relu()
    later = (active @ SECOND.T).relu()
    errors_2 = errors_3 @ LAST * (later > 0)
    errors = errors_2 @ SECOND * (active > 0)
    sizes = (FIRST.square().sum(1) + BIAS**2).sqrt()
    rows = (sizes / sizes.square().mean().sqrt()) ** -S
    beside = (BIAS.norm() / SINGULAR.square().mean().sqrt()) ** -Q

    def first(weight: Tensor, bias: Tensor) -> Tensor:
        return ((rows[:, None] * weight * relative**-Q) ** 2).sum() + ((rows * bias * beside) ** 2).sum()

    residual = first(FIRST - errors.T @ inputs, BIAS - errors.sum(0)) / first(FIRST, BIAS)
    residual = residual + 0.5 * (SECOND - errors_2.T @ active).square().sum() / SECOND.square().sum()
    residual = residual + 0.25 * (LAST - errors_3.T @ later).square().sum() / LAST.square().sum()
    gain = torch.linalg.svdvals(SECOND)[0] * torch.linalg.svdvals(LAST)[0] / FIRST.norm()
    atoms = gain * (errors_3.norm(dim=1) * start.norm(dim=1)).sum()
    leaving = signal_span * outside(errors, FIRST) + activation_span * outside(active, SECOND.T)
    return float(residual + (sparsity * atoms + leaving) / math.sqrt(RANK))


@pytest.mark.parametrize("costs", COSTS.values(), ids=COSTS)
def test_the_first_slopes_are_those_of_the_objective(monkeypatch: pytest.MonkeyPatch, costs: dict[str, float]) -> None:
    slopes: list[Tensor] = []

    def step(cycle: OneCycle) -> None:
        slopes.extend(variable.grad.clone() for variable in cycle._variables if variable.grad is not None)

    monkeypatch.setattr(OneCycle, "step", step)
    begun = Start(START, free_coefficients(CHOSEN, UNIT))
    search(PROBLEM, [begun], params(**costs), lambda step, found: None)
    by_coordinates, by_chosen = slopes[0][0], slopes[1]
    told, small = {"sparsity": 0.0, "signal_span": 0.0, "activation_span": 0.0} | costs, 1e-6
    for place in ((0, 0), (1, 2), (4, 3)):
        moved = torch.zeros_like(START)
        moved[place] = small
        up, down = (objective(START + sign * moved, CHOSEN, **told) for sign in (1, -1))
        assert float(by_coordinates[place]) == pytest.approx((up - down) / (2 * small), rel=1e-5, abs=1e-8)
    for place in ((0, 0), (3, 1)):
        moved = torch.zeros_like(CHOSEN)
        moved[place] = small
        up, down = (objective(START, CHOSEN + sign * moved, **told) for sign in (1, -1))
        assert float(by_chosen[place]) == pytest.approx((up - down) / (2 * small), rel=1e-5, abs=1e-8)


def test_with_a_gate_power_the_gates_of_long_neurons_are_softer() -> None:
    """With 1 a gate depends on the direction of a neuron's weights alone."""
    sizes = (FIRST.square().sum(1) + BIAS**2).sqrt()
    relative = sizes / sizes.square().mean().sqrt()
    sharpness = _residual(PROBLEM, params(gate_power=1.0)).sharpness  # type: ignore[union-attr]
    torch.testing.assert_close(sharpness * relative, torch.ones(H).double())
    assert _residual(PROBLEM, params()).sharpness is None  # type: ignore[union-attr]
