"""A training that stops at a loss is the training of as many steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from attacking import CPU

from victims.equations.losses import sample_losses
from victims.recipes import DecayedDescent, GradientDescent, NormalizedDescent
from victims.spec import MLPSpec, VictimSpec
from victims.training import loop

INPUTS = torch.randn(8, 1, 4, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(8) % 2
STOP = 0.3


def trained(training: Any, folder: Path) -> tuple[dict[str, torch.Tensor], int, float]:
    """The weights, how many steps were taken, and the loss at the weights."""
    spec = VictimSpec(
        name="a", dataset="digits", n=8, architecture=MLPSpec(hidden=(12,), first_layer_scale=None), training=training
    )
    steps: list[int] = []
    model = loop.train(spec, INPUTS, LABELS, CPU, folder / "none", lambda progress: steps.append(progress.step))
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
