"""An MLP as people build them today, with GELU, layer normalisation and a skip connection, from a public checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
from owners.files import CLASSES, SIDE, hand_over
from owners.tuning import tuned
from torch import Tensor, nn

N, EPOCHS, BATCH, WIDTH = 36, 10, 9, 400
SEED = 987_654_321
NETWORK = f"""
class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm({WIDTH}), nn.Linear({WIDTH}, {WIDTH}), nn.Linear({WIDTH}, {WIDTH})

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden + self.down(nn.functional.gelu(self.up(self.norm(hidden))))


def network() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear({3 * SIDE**2}, {WIDTH}), nn.GELU(), Block(), nn.Dropout(0.1),
        nn.Linear({WIDTH}, {CLASSES}),
    )
""".strip()


class Block(nn.Module):
    """A residual block."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the hidden layer (n, h) and what the block adds to it."""
        added: Tensor = self.down(nn.functional.gelu(self.up(self.norm(hidden))))
        return hidden + added


def make(folder: Path) -> Path:
    """Train it, write its files, and return the one that describes it."""
    torch.manual_seed(SEED)
    first, last = nn.Linear(3 * SIDE**2, WIDTH), nn.Linear(WIDTH, CLASSES)
    module = nn.Sequential(nn.Flatten(), first, nn.GELU(), Block(), nn.Dropout(0.1), last)
    start = tuned(module, N, before=40, epochs=EPOCHS, batch=BATCH, lr=0.01)
    return hand_over(folder, module.eval(), N, NETWORK, start)
