"""Steps of every optimiser, schedule and clipping, written out: the training by torch.optim ends where they do."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from victims.ordinary.descent import Descent, Examples
from victims.recipes import Ordinary

N, DIMENSION, CLASSES, BATCH, EPOCHS, SEED = 12, 5, 3, 3, 2, 7
STEPS = EPOCHS * N // BATCH
RATES = {
    "constant": [1.0] * 8,
    "cosine": [(1 + math.cos(math.pi * step / 8)) / 2 for step in range(8)],
    "step": [1, 1, 1, 1, 0.1, 0.1, 0.01, 0.01],
}
OPTIMISERS: dict[str, dict[str, Any]] = {
    "sgd": {"optimiser": "sgd", "lr": 0.3, "momentum": 0.8},
    "adam": {"optimiser": "adam", "lr": 0.05},
    "adamw": {"optimiser": "adamw", "lr": 0.05},
}
CLIP = 0.2
"""Below the norm of every gradient of these trainings."""


def written_out(weight: Tensor, inputs: Tensor, labels: Tensor, training: Ordinary) -> Tensor:
    """The weights (C, d) of a softmax after all steps; AdamW decays them themselves, the others their gradient."""
    shuffle = torch.Generator().manual_seed(SEED)
    batches = [batch for _ in range(EPOCHS) for batch in torch.randperm(N, generator=shuffle).split(BATCH)]
    velocity = square = torch.zeros_like(weight)
    for step, (batch, relative) in enumerate(zip(batches, RATES[training.schedule], strict=True)):
        lr, decay = training.lr * relative, training.weight_decay
        errors = (inputs[batch] @ weight.T).softmax(1) - torch.eye(CLASSES, dtype=weight.dtype)[labels[batch]]
        gradient = errors.T @ inputs[batch] / BATCH
        if training.clip is not None:
            assert gradient.norm() > training.clip
            gradient = gradient * training.clip / (gradient.norm() + 1e-6)  # as torch does
        if training.optimiser == "sgd":
            velocity = training.momentum * velocity + gradient + decay * weight
            weight = weight - lr * velocity
            continue
        if training.optimiser == "adamw":
            weight = weight - lr * decay * weight
        else:
            gradient = gradient + decay * weight
        velocity = 0.9 * velocity + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        first, second = velocity / (1 - 0.9 ** (step + 1)), square / (1 - 0.999 ** (step + 1))
        weight = weight - lr * first / (second.sqrt() + 1e-8)
    return weight


@pytest.mark.parametrize(("optimiser", "schedule", "clip"), list(product(OPTIMISERS, RATES, [None, CLIP])))
def test_a_training_ends_where_its_steps_written_out_do(optimiser: str, schedule: str, clip: float | None) -> None:
    recipe = {"batch_size": BATCH, "epochs": EPOCHS, "weight_decay": 0.1, "schedule": schedule, "clip": clip}
    training = Ordinary.model_validate(recipe | OPTIMISERS[optimiser])
    generator = torch.Generator().manual_seed(0)
    inputs = 2 * torch.randn(N, DIMENSION, generator=generator, dtype=torch.float64)
    labels, start = torch.arange(N) % CLASSES, torch.randn(CLASSES, DIMENSION, generator=generator).double()
    model = nn.Linear(DIMENSION, CLASSES, bias=False, dtype=torch.float64)
    model.load_state_dict({"weight": start})
    descent = Descent(model, Examples(inputs, labels), "cross-entropy", training, SEED)
    descent.run(lambda progress: None, lambda: None, lambda epoch: None)
    assert descent.step == STEPS == len(RATES[schedule])
    torch.testing.assert_close(model.weight.detach(), written_out(start, inputs, labels, training), rtol=0, atol=1e-12)
