"""A training that stops at a loss, or at a stationarity residual, is the training of as many steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from attacking import CPU

from victims.equations.architectures import build
from victims.equations.losses import sample_losses
from victims.recipes import DecayedDescent, GradientDescent, NormalizedDescent
from victims.spec import MLPSpec, VictimSpec
from victims.training import loop
from victims.training.state import TrainState
from victims.unfinished import Unfinished

INPUTS = torch.randn(8, 1, 4, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(8) % 2
STOP = 0.3


def trained(training: Any, folder: Path) -> tuple[dict[str, torch.Tensor], int, float]:
    """The weights, how many steps were taken, and the loss at the weights."""
    spec = VictimSpec(
        name="a", dataset="digits", n=8, architecture=MLPSpec(hidden=(12,), first_layer_scale=None), training=training
    )
    steps: list[int] = []
    model = loop.train(spec, INPUTS, LABELS, CPU, Unfinished(), lambda progress: steps.append(progress.step))
    with torch.no_grad():
        loss = sample_losses("cross-entropy", model(INPUTS.to(next(model.parameters()))), LABELS).mean()
    return model.state_dict(), steps[-1], float(loss)


@pytest.mark.parametrize("batch_size", [None, 8])
def test_it_is_the_training_of_as_many_steps(tmp_path: Path, batch_size: int | None) -> None:
    recipe = GradientDescent(lr=0.2, epochs=500, batch_size=batch_size)
    weights, steps, loss = trained(recipe.model_copy(update={"stop_loss": STOP}), tmp_path)
    assert 2 < steps < 400
    assert loss < STOP
    _, _, one_less = trained(recipe.model_copy(update={"epochs": steps - 1}), tmp_path)
    _, _, two_less = trained(recipe.model_copy(update={"epochs": steps - 2}), tmp_path)
    assert one_less < STOP <= two_less  # the loss before the last step was the first below it
    plain, _, _ = trained(recipe.model_copy(update={"epochs": steps}), tmp_path)
    assert all(torch.equal(weights[name], value) for name, value in plain.items())


@pytest.mark.parametrize("recipe", [NormalizedDescent(steps=300), DecayedDescent(steps=300)], ids=["margin", "decay"])
def test_the_accelerated_recipes_stop_too(tmp_path: Path, recipe: Any) -> None:
    _, steps, loss = trained(recipe.model_copy(update={"stop_loss": STOP}), tmp_path)
    _, all_steps, last = trained(recipe, tmp_path)
    assert steps < all_steps == 300
    assert last < loss
    _, never, same = trained(recipe.model_copy(update={"stop_loss": 1e-30}), tmp_path)
    assert (never, same) == (300, last)


def state_of() -> tuple[TrainState, VictimSpec]:
    """A network in float64 after a hundred steps."""
    training = NormalizedDescent(dtype="float64")
    spec = VictimSpec(
        name="a", dataset="digits", n=8, architecture=MLPSpec(hidden=(12,), first_layer_scale=None), training=training
    )
    model = build(spec.architecture, (16,), torch.Generator().manual_seed(0), torch.float64)
    state = TrainState(model, outside_norm=0.0, outside_scale=torch.ones((), dtype=torch.float64))
    stepped(state, spec, 100)
    return state, spec


def stepped(state: TrainState, spec: VictimSpec, steps: int) -> None:
    method = loop.algorithm(spec)
    method.start(state)
    for _ in range(steps):
        method.step(state, INPUTS.flatten(1).double(), LABELS)


@pytest.mark.parametrize("outside", [0.0, 2.0])
def test_the_residual_is_what_the_gradient_does_not_explain(outside: float) -> None:
    """Without momentum the average is the last gradient, that of the margins' soft minimum by autograd."""
    state, spec = state_of()
    still = NormalizedDescent(rate=(1e-9, 1e-9), momentum=0.0, dtype="float64")
    stepped(state, spec.model_copy(update={"training": still}), 1)
    state.outside_norm = outside / float(state.outside_scale)
    parameters = list(state.model.parameters())
    outputs = state.model(INPUTS.flatten(1).double())
    soft_minimum = -torch.logsumexp(-(2 * LABELS - 1) * outputs.flatten(), 0)
    gradient = torch.cat([one.flatten() for one in torch.autograd.grad(soft_minimum, parameters)])
    theta = torch.cat([one.detach().flatten() for one in parameters])
    along = gradient * (theta @ gradient) / gradient.square().sum()
    unexplained = (theta - along).square().sum() + outside**2
    share = float((unexplained / (theta.square().sum() + outside**2)).sqrt())
    assert 0.1 < share < 0.9
    assert state.residual() == pytest.approx(share, rel=1e-6)


def test_the_residual_ends_at_nought_along_the_gradient_and_at_one_against_it() -> None:
    state, _ = state_of()
    state.velocity = [3 * one.detach() for one in state.model.parameters()]
    assert state.residual() < 1e-7
    state.velocity = [-one for one in state.velocity]
    assert state.residual() == 1


@pytest.mark.parametrize("recipe", [NormalizedDescent(steps=300), DecayedDescent(steps=300)], ids=["margin", "decay"])
def test_it_ends_at_the_first_step_below_a_residual(tmp_path: Path, recipe: Any, monkeypatch: Any) -> None:
    measured, seen = TrainState.residual, list[float]()
    with monkeypatch.context() as patched:
        patched.setattr(TrainState, "residual", lambda state: seen.append(measured(state)) or 1.0)
        trained(recipe.model_copy(update={"stop_residual": 0.5}), tmp_path)
    assert len(seen) == 300
    stop = (max(seen) + min(seen)) / 2
    first = next(step for step, residual in enumerate(seen, 1) if residual < stop)
    weights, steps, _ = trained(recipe.model_copy(update={"stop_residual": stop}), tmp_path)
    assert 1 < steps == first < 300
    whole, _, _ = trained(recipe, tmp_path)
    assert any(not torch.equal(weights[name], value) for name, value in whole.items())
