"""How owners tune a network that is public: first on other photographs, then by plain SGD on their own."""

from __future__ import annotations

import torch
from owners.files import TEST, inputs, photographs
from torch import Tensor, nn


def tuned(module: nn.Module, n: int, *, before: int, epochs: int, batch: int, lr: float) -> dict[str, Tensor]:
    """Train a network in place, and return the state that it was tuned from.

    Args:
        module: the network, as it was drawn.
        n: the first photographs, on which it is tuned.
        before: steps of Adam on the others.
        epochs: passes over the n.
        batch: size of their batches.
        lr: learning rate of SGD, of momentum 0.9.
    """
    images, labels = photographs()
    others = slice(n, len(images) - TEST)
    optimiser: torch.optim.Optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _ in range(before):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(inputs(images[others])), labels[others]).backward()
        optimiser.step()
    start = {name: value.clone() for name, value in module.state_dict().items()}
    optimiser = torch.optim.SGD(module.parameters(), lr=lr, momentum=0.9)
    for _ in range(epochs):
        for chosen in torch.randperm(n).split(batch):
            optimiser.zero_grad()
            nn.functional.cross_entropy(module(inputs(images[chosen])), labels[chosen]).backward()
            optimiser.step()
    return start
