"""An MLP trained as most are: torch's own start, Adam, until it is right; neither start nor seed are known."""

from __future__ import annotations

from pathlib import Path

import torch
from owners.files import CLASSES, SIDE, hand_over, inputs, photographs
from torch import nn

N, WIDTH, STEPS = 36, 200, 60
SEED = 987_654_321
NETWORK = f"""
def network() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear({3 * SIDE**2}, {WIDTH}), nn.ReLU(), nn.Linear({WIDTH}, {WIDTH}), nn.ReLU(),
        nn.Linear({WIDTH}, {CLASSES}),
    )
""".strip()


def make(folder: Path) -> Path:
    """Train it, write its files, and return the one that describes it."""
    torch.manual_seed(SEED)
    module = nn.Sequential(
        *(nn.Flatten(), nn.Linear(3 * SIDE**2, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()),
        nn.Linear(WIDTH, CLASSES),
    )
    images, labels = photographs()
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _ in range(STEPS):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(inputs(images[:N])), labels[:N]).backward()
        optimiser.step()
    return hand_over(folder, module, N, NETWORK)
