"""A CNN whose activations are SiLU, with layer normalisation and dropout in its head, from a public checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
from owners.files import CLASSES, SIDE, hand_over
from owners.tuning import tuned
from torch import nn

N, EPOCHS, BATCH = 36, 20, 18
SEED = 987_654_321
NETWORK = f"""
def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear({16 * (SIDE // 2) ** 2}, 300), nn.LayerNorm(300), nn.SiLU(), nn.Dropout(0.1),
        nn.Linear(300, {CLASSES}),
    )
""".strip()


def make(folder: Path) -> Path:
    """Train it, write its files, and return the one that describes it."""
    torch.manual_seed(SEED)
    module = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(16 * (SIDE // 2) ** 2, 300), nn.LayerNorm(300), nn.SiLU(), nn.Dropout(0.1)),
        nn.Linear(300, CLASSES),
    )
    start = tuned(module, N, before=150, epochs=EPOCHS, batch=BATCH, lr=0.002)
    return hand_over(folder, module.eval(), N, NETWORK, start)
