"""A CNN as tutorials have it, with pooling, and batch normalisation everywhere, fine-tuned from a public checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
from owners.files import CLASSES, SIDE, hand_over
from owners.tuning import tuned
from torch import nn

N, EPOCHS, BATCH, WIDTH = 36, 20, 18, 300
SEED = 987_654_321


def make(folder: Path) -> Path:
    """Train it, write its files, and return the one that describes it."""
    return make_with(folder, nn.ReLU(), nn.BatchNorm1d(WIDTH), nn.ReLU())


def make_with(folder: Path, activation: nn.Module, *between: nn.Module) -> Path:
    """Train a CNN with this activation in its front and these modules between its fully connected layers."""
    torch.manual_seed(SEED)
    module = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), activation, nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(16 * (SIDE // 2) ** 2, WIDTH), *between, nn.Linear(WIDTH, CLASSES)),
    )
    layers = ", ".join(f"nn.{layer}" for layer in module)  # a layer's repr is the call that makes it
    network = f"def network() -> nn.Module:\n    return nn.Sequential({layers})"
    start = tuned(module, N, before=150, epochs=EPOCHS, batch=BATCH, lr=0.002)
    return hand_over(folder, module.eval(), N, network, start)
