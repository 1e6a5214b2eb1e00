"""A small CNN with batch normalisation and pooling, and one linear layer: no attack on layers or features takes it."""

from __future__ import annotations

from pathlib import Path

import torch
from owners.files import CLASSES, SIDE, hand_over, inputs, photographs
from torch import nn

N, CHANNELS, STEPS = 36, 8, 80
SEED = 987_654_321
NETWORK = f"""
def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, {CHANNELS}, 3, padding=1), nn.BatchNorm2d({CHANNELS}), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear({CHANNELS * (SIDE // 2) ** 2}, {CLASSES}),
    )
""".strip()


def make(folder: Path) -> Path:
    """Train it, write its files, and return the one that describes it."""
    torch.manual_seed(SEED)
    module = nn.Sequential(
        *(nn.Conv2d(3, CHANNELS, 3, padding=1), nn.BatchNorm2d(CHANNELS), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        nn.Linear(CHANNELS * (SIDE // 2) ** 2, CLASSES),
    )
    images, labels = photographs()
    optimiser = torch.optim.Adam(module.parameters(), lr=3e-3)
    for _ in range(STEPS):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(inputs(images[:N])), labels[:N]).backward()
        optimiser.step()
    return hand_over(folder, module, N, NETWORK)
