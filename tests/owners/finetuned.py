"""An MLP that was pre-trained on other photographs, and fine-tuned by plain SGD from that public checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
from owners.files import CLASSES, SIDE, TEST, hand_over, inputs, photographs
from owners.ordinary import NETWORK, WIDTH
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
    images, labels = photographs()
    others = slice(N, len(images) - TEST)
    optimiser: torch.optim.Optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _ in range(40):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(inputs(images[others])), labels[others]).backward()
        optimiser.step()
    start = {name: value.clone() for name, value in module.state_dict().items()}
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
    for _ in range(EPOCHS):
        for batch in torch.randperm(N).split(BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(inputs(images[batch])), labels[batch]).backward()
            optimiser.step()
    return hand_over(folder, module, N, NETWORK, start)
