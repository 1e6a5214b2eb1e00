"""RecoNN: a network from a model's parameters to the record (Balle et al. 2022, Section 4.2)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from victims.devices.upload import uploaded

Loss = Callable[[Tensor, Tensor], Tensor]
"""Maps reconstructed and true images, both (k, C, H, W) in [0, 1], to a scalar."""


def dense_reconstructor(inputs: int, hidden: Sequence[int], shape: Sequence[int]) -> nn.Sequential:
    """Return the network for grey images: ReLU layers and a sigmoid (Table V and the authors' notebook).

    Args:
        inputs: p, the number of features.
        hidden: widths of the hidden layers.
        shape: (C, H, W) of an image.
    """
    widths = (inputs, *hidden)
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    layers += [nn.Linear(widths[-1], math.prod(shape)), nn.Sigmoid(), nn.Unflatten(1, tuple(shape))]
    return nn.Sequential(*layers)


def convolutional_reconstructor(inputs: int, shape: Sequence[int]) -> nn.Sequential:
    """Return the network for colour images: a linear layer as 64 maps, then two transposed convolutions (Table VII).

    Each transposed convolution doubles the side, so the side of the maps is a quarter of the image's.

    Args:
        inputs: p, the number of features.
        shape: (C, H, W) of an image, H and W multiples of 4.
    """
    channels, height, width = shape
    side = (height // 4, width // 4)
    return nn.Sequential(
        nn.Linear(inputs, 64 * math.prod(side)),
        nn.ReLU(),
        nn.Unflatten(1, (64, *side)),
        nn.ConvTranspose2d(64, 32, 5, stride=2, padding=2, output_padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(32, channels, 5, stride=2, padding=2, output_padding=1),
        nn.Sigmoid(),
    )


def pixel_loss(images: Tensor, truth: Tensor) -> Tensor:
    """Return the mean absolute error plus the mean squared error, a scalar, of images (k, C, H, W)."""
    return F.l1_loss(images, truth) + F.mse_loss(images, truth)


@dataclass(frozen=True)
class Schedule:
    """The schedule of a reconstructor's training.

    Attributes:
        epochs: largest number of epochs.
        batch_size: number of pairs of a model and its record in a step.
        patience: number of epochs without a better validation error after which training ends.
    """

    epochs: int
    batch_size: int
    patience: int


@dataclass(frozen=True)
class Pairs:
    """Standardised features (k, p) and the images (k, C, H, W) that belong to them."""

    features: Tensor
    images: Tensor

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Pairs]:
        """Yield all pairs in a random order, `size` at a time."""
        order = uploaded(torch.randperm(len(self.images), generator=generator), self.features.device)
        for chosen in order.split(size):
            yield Pairs(self.features[chosen], self.images[chosen])


def fit(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Loss,
    learned: Pairs,
    apart: Pairs,
    schedule: Schedule,
    generator: torch.Generator,
    report: Callable[[int, float, float], None],
    expired: Callable[[int], bool] = lambda step: False,
) -> tuple[float, int]:
    """Train a reconstructor in place; it ends with the weights of its best epoch.

    Args:
        network: maps features (k, p) to images (k, C, H, W).
        optimizer: optimiser of its parameters.
        loss: the loss that is minimised.
        learned: the pairs that it learns from.
        apart: the pairs that choose the best epoch, by mean squared error.
        schedule: epochs, batch size and patience.
        generator: CPU generator of the order of pairs.
        report: called after each epoch with its number from 1, the mean training loss and the validation error.
        expired: called after each epoch with the optimiser's steps so far; returns whether to end there.

    Returns:
        The best mean squared error on the pairs kept apart, and the number of the optimiser's steps.
    """
    best, best_state, best_epoch, step = math.inf, network.state_dict(), 0, 0
    for epoch in range(1, schedule.epochs + 1):
        network.train()
        total = torch.zeros((), dtype=torch.float64, device=apart.features.device)
        for batch in learned.batches(schedule.batch_size, generator):
            optimizer.zero_grad()
            value = loss(network(batch.features), batch.images)
            value.backward()
            optimizer.step()
            step += 1
            total += value.detach().double() * len(batch.images)
        error = float(F.mse_loss(apply(network, apart.features), apart.images))
        report(epoch, float(total) / len(learned.images), error)
        if error < best:
            best, best_state, best_epoch = error, copy.deepcopy(network.state_dict()), epoch
        elif epoch - best_epoch >= schedule.patience:
            break
        if expired(step):
            break
    network.load_state_dict(best_state)
    return best, step


@torch.no_grad()
def apply(network: nn.Module, features: Tensor) -> Tensor:
    """Return the images (k, C, H, W) that a reconstructor makes of standardised features (k, p)."""
    network.eval()
    return torch.cat([network(part) for part in features.split(256)])
