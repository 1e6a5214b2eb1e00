"""An MLP in a subclass, trained with weight decay until nothing changes any more: its start is forgotten."""

from __future__ import annotations

from pathlib import Path

import torch
from owners.files import CLASSES, hand_over, inputs, photographs
from torch import Tensor, nn

N, SIDE, WIDTH, STEPS = 24, 16, 200, 4000
SEED, DECAY, RATE = 987_654_321, 3e-3, 0.1
NETWORK = f"""
class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear({3 * SIDE**2}, {WIDTH}), nn.Linear({WIDTH}, {WIDTH})
        self.last = nn.Linear({WIDTH}, {CLASSES})

    def forward(self, images):
        hidden = torch.relu(self.first(images.flatten(1)))
        return self.last(torch.relu(self.second(hidden)))


def network() -> nn.Module:
    return Network()
""".strip()


class Network(nn.Module):
    """The same, where it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3 * SIDE**2, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (n, CLASSES)."""
        hidden = torch.relu(self.first(images.flatten(1)))
        outputs: Tensor = self.last(torch.relu(self.second(hidden)))
        return outputs


def make(folder: Path) -> Path:
    """Train it, write its files, and return the one that describes it."""
    torch.manual_seed(SEED)
    module = Network()
    images, labels = photographs(SIDE)
    optimiser = torch.optim.SGD(module.parameters(), lr=RATE, momentum=0.9, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for _ in range(STEPS):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(inputs(images[:N])), labels[:N]).backward()
        optimiser.step()
        schedule.step()
    return hand_over(folder, module, N, NETWORK, side=SIDE)
