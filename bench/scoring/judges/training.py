"""How a judge is trained: stochastic gradient descent, one cycle of the learning rate, images moved at random."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.scoring.judges.networks import Network, Standardize
from victims.devices.upload import uploaded

SEED = 0
"""Of the initial weights, the order of the images and their augmentation."""

REPORT_SECONDS = 0.5
_CHUNK = 500

Report = Callable[[int, int, dict[str, float]], None]


@dataclass(frozen=True)
class Recipe:
    """A training: a number of passes over the images, kept within a least and a largest number of gradient steps.

    Attributes:
        epochs: passes over the images.
        steps: fewest and most gradient steps: few images are seen more often, many less often.
        batch: images a step.
        peak_rate: learning rate at the top of the cycle.
        rotation: largest rotation either way, degrees.
        scale: largest relative change of size either way.
        shift: largest shift either way, as a share of the side.
        flip: whether half of the images are mirrored left to right.
        weight_decay: of all parameters.
    """

    epochs: int
    steps: tuple[int, int]
    batch: int
    peak_rate: float
    rotation: float
    scale: float
    shift: float
    flip: bool
    weight_decay: float = 5e-4


RECIPES: dict[Network, Recipe] = {
    "lenet": Recipe(15, (150, 8000), 64, 0.03, rotation=10, scale=0.1, shift=0.07, flip=False),
    "resnet": Recipe(30, (150, 8000), 64, 0.1, rotation=10, scale=0.15, shift=0.1, flip=True),
}


def train(
    model: nn.Sequential, images: Tensor, labels: Tensor, recipe: Recipe, generator: torch.Generator, report: Report
) -> int:
    """Train a network in place, where it is; it is left in evaluation mode.

    Args:
        model: as `networks.build` gives it, on any device.
        images: (N, C, H, W) in [0, 1], on any device.
        labels: (N,) int64 classes.
        recipe: how to train.
        generator: the CPU generator that all draws come from.
        report: told step, steps, and the batch's loss and accuracy about twice a second.

    Returns:
        The number of gradient steps.
    """
    device = next(model.parameters()).device
    batch = min(recipe.batch, len(images))
    fewest, most = recipe.steps
    steps = min(max(recipe.epochs * (len(images) // batch), fewest), most)
    for module in model.modules():
        if isinstance(module, Standardize):
            module.fit(images)
    # The one-cycle schedule (Smith 2018) moves the momentum too: from 0.95 to 0.85 as the rate rises, and back.
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.95, weight_decay=recipe.weight_decay, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.peak_rate, total_steps=steps, pct_start=0.25)
    model.train()
    reported = time.monotonic()
    for step, chosen in zip(range(1, steps + 1), _batches(len(images), batch, generator), strict=False):
        moved = augment(uploaded(images[chosen], device), recipe, generator)
        targets = uploaded(labels[chosen], device)
        logits = model(moved)
        loss = F.cross_entropy(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if (now := time.monotonic()) - reported > REPORT_SECONDS or step == steps:
            reported = now
            accuracy = (logits.argmax(1) == targets).float().mean()
            report(step, steps, {"loss": loss.item(), "accuracy": accuracy.item()})
    model.eval()
    return steps


def _batches(n: int, batch: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield positions (batch,) without end: each pass has an order of its own and leaves out what fills no batch."""
    while True:
        yield from torch.randperm(n, generator=generator)[: n - n % batch].split(batch)


def augment(images: Tensor, recipe: Recipe, generator: torch.Generator) -> Tensor:
    """Rotate, scale, shift and mirror each image by its own draw; pixels from beyond the border repeat the border.

    Args:
        images: (k, C, H, W).
        recipe: says how far.
        generator: the CPU generator.

    Returns:
        (k, C, H, W), on the device of the images.
    """
    angle, scale, right, down, side = 2 * torch.rand(5, len(images), generator=generator) - 1
    angle, scale = angle * math.radians(recipe.rotation), 1 + scale * recipe.scale
    mirror = torch.where(side < 0, -1, 1) if recipe.flip else 1
    cosine, sine = scale * angle.cos(), scale * angle.sin()
    reach = 2 * recipe.shift  # affine_grid's coordinates run from -1 to 1
    rows = (mirror * cosine, -sine, reach * right), (mirror * sine, cosine, reach * down)
    maps = uploaded(torch.stack([torch.stack(row, 1) for row in rows], 1), images.device)
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


@torch.no_grad()
def evaluate(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[float, float]:
    """Return the accuracy in [0, 1] and the mean cross-entropy in nats of a network in evaluation mode."""
    device = next(model.parameters()).device
    logits = torch.cat([model(chunk.to(device)).cpu() for chunk in images.split(_CHUNK)])
    return float((logits.argmax(1) == labels).double().mean()), float(F.cross_entropy(logits, labels))
