"""Gauss-Newton steps: the minimum of a weighted least squares problem in all parameters, and where they end."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector
from twelve import CPU, problem, spec

from victims.equations.architectures import MLP, build
from victims.equations.losses import sample_losses
from victims.spec import DecayedDescent, GramGaussNewton, Loss, VictimSpec
from victims.training.gram_gauss_newton import GramGaussNewtonAlgorithm
from victims.training.loop import train
from victims.training.state import TrainState
from victims.unfinished import Unfinished

LOSSES: tuple[Loss, ...] = ("l2", "l2.5", "huber")


def one_step(victim: VictimSpec, forgotten: float) -> tuple[MLP, Tensor, Tensor, Tensor]:
    """Return a network after one Gauss-Newton step, its parameters before, the gradients J (n, p) and outputs there."""
    inputs, labels = problem()
    flat = inputs.flatten(1).double()
    recipe = GramGaussNewton(weight_decay=0.01, descent=1, steps=1, forgotten=(forgotten, forgotten))
    model = build(victim.architecture, inputs.shape[1:], torch.Generator().manual_seed(1), torch.float64)
    assert isinstance(model, MLP)
    outputs = model(flat)
    rows = [torch.autograd.grad(one, list(model.parameters()), retain_graph=True) for one in outputs]
    before = parameters_to_vector(model.parameters()).detach().clone()
    state = TrainState(model, outside_norm=0.0, outside_scale=torch.ones((), dtype=torch.float64), step=1)
    method = GramGaussNewtonAlgorithm(recipe, victim.loss)
    method.step(state, flat, labels)
    return model, before, torch.stack([parameters_to_vector(row) for row in rows]), outputs.detach()


@pytest.mark.parametrize("forgotten", [0.25, 1.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_step_is_the_minimum_of_reweighted_least_squares(loss: Loss, forgotten: float) -> None:
    """Over all p parameters by normal equations, slopes by autograd; off the gradients 1 - e of theta stays."""
    victim = spec(DecayedDescent(), loss, first_layer_scale=0.3)
    model, before, rows, outputs = one_step(victim, forgotten)
    _, labels = problem()

    residuals = outputs - (2.0 * labels - 1)
    slope = torch.autograd.functional.jacobian(lambda at: sample_losses(loss, at, labels).sum(), outputs)
    weights = torch.diag(slope / residuals)
    linear = rows @ before - outputs  # the linearised outputs at theta+ are J theta+ - linear
    normal = rows.T @ weights @ rows + 12 * 0.01 * torch.eye(len(before), dtype=torch.float64)
    at_zero = weights @ (-linear - (2.0 * labels - 1))
    rest = before - torch.linalg.pinv(rows) @ (rows @ before)
    expected = torch.linalg.solve(normal, -rows.T @ at_zero) + (1 - forgotten) * rest
    found = parameters_to_vector(model.parameters()).detach()
    assert float(rest.norm()) > 0.1
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


def test_one_step_fits_a_linear_model_to_the_ridge_solution(tmp_path: Path) -> None:
    victim = spec(GramGaussNewton(weight_decay=0.01, descent=1, steps=1, forgotten=(1, 1)), "l2", hidden=())
    inputs, labels = problem()
    model = train(victim, inputs, labels, CPU, Unfinished(), lambda at: None)
    rows = torch.cat([inputs.flatten(1), torch.ones(12, 1)], dim=1).double()
    gram = rows @ rows.T + 12 * 0.01 / 2 * torch.eye(12, dtype=torch.float64)
    expected = rows.T @ torch.linalg.solve(gram, 2.0 * labels.double() - 1)
    found = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_regression_ends_below_a_descent_of_as_many_steps(loss: Loss, tmp_path: Path) -> None:
    """Seeds 1 to 8 end at .64 to .96 of the descent's objective."""
    inputs, labels = problem()

    def objective(training: DecayedDescent | GramGaussNewton) -> float:
        model = train(spec(training, loss), inputs, labels, CPU, Unfinished(), lambda at: None)
        squares = sum(float(parameter.detach().square().sum()) for parameter in model.parameters())
        return float(sample_losses(loss, model(inputs.double()), labels).mean().detach()) + 1e-3 / 2 * squares

    descended = objective(DecayedDescent(steps=900, dtype="float64"))
    assert objective(GramGaussNewton()) < 0.98 * descended
