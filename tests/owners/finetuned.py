"""An MLP that was pre-trained on other photographs, and fine-tuned by plain SGD from that public checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
from owners.files import CLASSES, SIDE, hand_over
from owners.ordinary import NETWORK, WIDTH
from owners.tuning import tuned
from torch import nn

N, EPOCHS, BATCH = 36, 10, 8
SEED = 987_654_321


def make(folder: Path) -> Path:
    """Train it, write its files, and return the one that describes it."""
    torch.manual_seed(SEED)
    module = nn.Sequential(
        *(nn.Flatten(), nn.Linear(3 * SIDE**2, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()),
        nn.Linear(WIDTH, CLASSES),
    )
    start = tuned(module, N, before=40, epochs=EPOCHS, batch=BATCH, lr=0.01)
    return hand_over(folder, module, N, NETWORK, start)
