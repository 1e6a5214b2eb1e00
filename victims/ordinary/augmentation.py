"""What changes at random while a network learns: the images of a batch, and the neurons that take part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from victims.devices.upload import uploaded
from victims.recipes import Augmentation

APART = 2**32
"""From the seed of the generator that shuffles the batches to that of the changes, which are not to go with it."""


@dataclass(frozen=True)
class Mixing:
    """How a batch is mixed with itself.

    Attributes:
        partners: (b,) the places in the batch of what is added to each image; None where nothing is.
        own: share in [0, 1] of the image itself.
    """

    partners: Tensor | None = None
    own: float = 1.0

    def of(self, images: Tensor) -> Tensor:
        """Return the mixtures (b, ...) of images (b, ...)."""
        return images if self.partners is None else self.own * images + (1 - self.own) * images[self.partners]

    def loss(self, loss: Callable[[Tensor], Tensor], labels: Tensor) -> Tensor:
        """Return the mixture of a loss, a function of the labels (b,), at the labels of both images."""
        own = loss(labels)
        return own if self.partners is None else self.own * own + (1 - self.own) * loss(labels[self.partners])


class Augmenter:
    """Draws the changes of every step.

    Args:
        augmentation: what images go through.
        dropout: share of the hidden neurons that a step leaves out, in [0, 1).
        black: what a black pixel is to the network: a number, or (C, 1, 1).
        seed: of the generator that all is drawn from, on the CPU.
    """

    def __init__(self, augmentation: Augmentation, dropout: float, black: Tensor | float, seed: int) -> None:
        self.augmentation, self.dropout, self.black = augmentation, dropout, black
        self.generator = torch.Generator().manual_seed(APART + seed)

    def moved(self, images: Tensor) -> Tensor:
        """Return images (b, C, H, W), each mirrored or not, and cut out of what black is added to."""
        crop, flip = self.augmentation.crop, self.augmentation.flip
        if not (crop or flip):
            return images
        b, _, height, width = images.shape
        down, right = torch.randint(2 * crop + 1, (2, b, 1), generator=self.generator)
        mirrored = torch.rand(b, 1, generator=self.generator) < (0.5 if flip else 0.0)
        columns = torch.arange(width)
        columns = torch.where(mirrored, columns.flip(0), columns) + right
        rows, columns = (uploaded(places, images.device) for places in (torch.arange(height) + down, columns))
        padded = images.new_zeros(*images.shape[:2], height + 2 * crop, width + 2 * crop) + self.black
        padded[:, :, crop : crop + height, crop : crop + width] = images
        each = torch.arange(b, device=images.device)[:, None, None]
        return padded[each, :, rows[:, :, None], columns[:, None]].movedim(3, 1)

    def mixing(self, batch: int, device: torch.device) -> Mixing:
        """Return how a batch of so many images is mixed."""
        if not self.augmentation.mixup:
            return Mixing()
        partners = uploaded(torch.randperm(batch, generator=self.generator), device)
        return Mixing(partners, float(torch.rand((), generator=self.generator)))

    def drop(self, network: nn.Module) -> None:
        """Let dropout (Srivastava et al. 2014) act on what each fully connected layer but the first takes.

        It acts while the network is in training, as `nn.Dropout` does; the network has no new parameters.
        """
        if self.dropout:
            for layer in [module for module in network.modules() if isinstance(module, nn.Linear)][1:]:
                layer.register_forward_pre_hook(self._dropped)

    def _dropped(self, layer: nn.Module, taken: tuple[Any, ...]) -> tuple[Tensor, ...] | None:
        if not layer.training:
            return None
        (hidden,) = taken
        kept = torch.rand(hidden.shape, generator=self.generator) >= self.dropout
        return (hidden * uploaded(kept, hidden.device) / (1 - self.dropout),)
