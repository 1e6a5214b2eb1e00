"""A patch discriminator that is trained beside the reconstructor (Balle et al. 2022, Tables V and VIII)."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

LEARNING_RATE = 1e-5
SMALLEST_SIDE = 24
"""Side in pixels of the smallest images that have a patch."""


def patch_discriminator(channels: int) -> nn.Sequential:
    """Return PatchGAN's network: 4 x 4 convolutions from images (k, C, H, W) to scores of patches (k, 1, h, w)."""
    widths, strides = (channels, 64, 128, 256, 512, 1), (2, 2, 2, 1, 1)
    layers: list[nn.Module] = []
    for (before, after), stride in zip(pairwise(widths), strides, strict=True):
        layers += [nn.Conv2d(before, after, 4, stride, padding=1), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


class PatchDiscriminator:
    """The least-squares GAN's loss of a generator, from a discriminator that learns at every call.

    Args:
        channels: number of channels of an image.
        device: device of the discriminator.
    """

    def __init__(self, channels: int, device: torch.device) -> None:
        self.network = patch_discriminator(channels).to(device)
        self._optimizer = torch.optim.Adam(self.network.parameters(), LEARNING_RATE)

    def __call__(self, images: Tensor, truth: Tensor) -> Tensor:
        """Return the generator's loss, a scalar, of images (k, C, H, W), after one step of the discriminator on both.

        Args:
            images: (k, C, H, W) reconstructions.
            truth: (k, C, H, W) the true images.
        """
        self._optimizer.zero_grad()
        fake, real = self.network(images.detach()), self.network(truth)
        (fake.square().mean() + (real - 1).square().mean()).backward()
        self._optimizer.step()
        loss: Tensor = (self.network(images) - 1).square().mean()
        return loss
