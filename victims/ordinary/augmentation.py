"""What changes at random while a network learns: the images of a batch, and the neurons that take part."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from victims.devices.upload import uploaded
from victims.recipes import Augmentation

APART = 2**32
"""From the seed of the generator that shuffles the batches to that of the changes, which are not to go with it."""
ERASED, ASPECT = (0.02, 0.33), (0.3, 1 / 0.3)
"""Of the rectangle that is erased, the share of the image's area and height by width.

As `torchvision.transforms.RandomErasing` has them, and zeros for the pixels; Zhong et al. 2020 draw these at random.
"""
GREY = (0.2989, 0.587, 0.114)
"""What red, green and blue count for in the brightness of a pixel, as torchvision has it."""


@dataclass(frozen=True)
class Mixing:
    """How a batch is mixed with itself: added up (mixup, Zhang et al. 2018) or cut out (cutmix, Yun et al. 2019).

    Attributes:
        partners: (b,) the places in the batch of what is mixed with each image; None where nothing is.
        own: share in [0, 1] of the image itself.
        box: rows and columns of the rectangle that the partners' images fill; None where images are added up.
    """

    partners: Tensor | None = None
    own: float = 1.0
    box: tuple[slice, slice] | None = None

    def of(self, images: Tensor) -> Tensor:
        """Return the mixtures (b, C, H, W) of images (b, C, H, W)."""
        if self.partners is None:
            return images
        if self.box is None:
            return self.own * images + (1 - self.own) * images[self.partners]
        mixed = images.clone()
        mixed[:, :, *self.box] = images[self.partners][:, :, *self.box]
        return mixed

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
        white: what a white one is.
        seed: of the generator that all is drawn from, on the CPU.
    """

    def __init__(
        self, augmentation: Augmentation, dropout: float, black: Tensor | float, white: Tensor | float, seed: int
    ) -> None:
        self.augmentation, self.dropout, self.black, self.white = augmentation, dropout, black, white
        self.generator = torch.Generator().manual_seed(APART + seed)

    def changed(self, images: Tensor) -> Tensor:
        """Return images (b, C, H, W), each moved, its colours changed and a rectangle erased, in this order."""
        return self._erased(self._jittered(self.moved(images)))

    def moved(self, images: Tensor) -> Tensor:
        """Return images, each mirrored or not, and cut out of what black is added to."""
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

    def _jittered(self, images: Tensor) -> Tensor:
        """Return images whose brightness, contrast and saturation are changed, each by a factor of its own."""
        if not (most := self.augmentation.jitter):
            return images
        factors = 1 + most * (2 * torch.rand(3, len(images), 1, 1, 1, generator=self.generator) - 1)
        scale = self.white - self.black
        pixels = (images - self.black) / scale
        return jittered(pixels, *uploaded(factors.to(images.dtype), images.device)) * scale + self.black

    def _erased(self, images: Tensor) -> Tensor:
        """Return images, some of them with a rectangle of zeros (after Zhong et al. 2020, whose pixels are random).

        Zero is the mean pixel of inputs that are standardised.
        """
        if not self.augmentation.erase:
            return images
        height, width = images.shape[2:]
        drawn, area, aspect, down, right = torch.rand(5, len(images), 1, generator=self.generator)
        area = (ERASED[0] + (ERASED[1] - ERASED[0]) * area) * height * width
        aspect = (math.log(ASPECT[0]) + math.log(ASPECT[1] / ASPECT[0]) * aspect).exp()
        rows = _stretch(height, (area * aspect).sqrt(), down) & (drawn < self.augmentation.erase)
        columns = _stretch(width, (area / aspect).sqrt(), right)
        erased = rows[:, None, :, None] & columns[:, None, None]
        return images.masked_fill(uploaded(erased, images.device), 0.0)

    def mixing(self, images: Tensor) -> Mixing:
        """Return how a batch (b, C, H, W) is mixed."""
        if not (self.augmentation.mixup or self.augmentation.cutmix):
            return Mixing()
        partners = uploaded(torch.randperm(len(images), generator=self.generator), images.device)
        own = float(torch.rand((), generator=self.generator))
        if self.augmentation.mixup:
            return Mixing(partners, own)
        rows, columns = (self._side(size, math.sqrt(1 - own)) for size in images.shape[2:])
        area = (rows.stop - rows.start) * (columns.stop - columns.start)
        return Mixing(partners, 1 - area / images[0, 0].numel(), (rows, columns))

    def _side(self, size: int, share: float) -> slice:
        """Return that share of a side around a place that is drawn, as far as it lies on the side."""
        middle, half = int(torch.randint(size, (), generator=self.generator)), int(size * share) // 2
        return slice(max(middle - half, 0), min(middle + half, size))

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


def jittered(pixels: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor) -> Tensor:
    """Return pixels (b, C, H, W) in [0, 1] of another brightness, then contrast, then saturation.

    Howard (2013) changes them at random; each change is as `adjust_*` of torchvision.transforms.functional has it.

    Args:
        pixels: in [0, 1]; of red, green and blue, or of channels that count alike.
        brightness: (b, 1, 1, 1) factors, 1 for no change.
        contrast: likewise.
        saturation: likewise.
    """
    pixels = (pixels * brightness).clamp(0, 1)
    level = _grey(pixels).mean((1, 2, 3), keepdim=True)
    pixels = (level + contrast * (pixels - level)).clamp(0, 1)
    grey = _grey(pixels)
    return (grey + saturation * (pixels - grey)).clamp(0, 1)


def _grey(pixels: Tensor) -> Tensor:
    """Return the brightness (b, 1, H, W) of pixels (b, C, H, W)."""
    if pixels.shape[1] != len(GREY):
        return pixels.mean(1, keepdim=True)
    red, green, blue = (share * channel for share, channel in zip(GREY, pixels.unbind(1), strict=True))
    return (red + green + blue)[:, None]


def _stretch(size: int, length: Tensor, place: Tensor) -> Tensor:
    """Return which of the places (b, size) on a side a stretch of it takes.

    Args:
        size: of the side, pixels.
        length: (b, 1) of the stretch, which is cut to the side.
        place: (b, 1) in [0, 1), where in what the stretch leaves of the side it begins.
    """
    length = length.round().clamp(1, size)
    first = (place * (size - length + 1)).floor()
    along = torch.arange(size)
    return (along >= first) & (along < first + length)
