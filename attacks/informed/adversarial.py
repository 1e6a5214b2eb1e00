"""A discriminator of patches that judges reconstructions while it learns (Balle et al. 2022, Tables V and VIII)."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

LEARNING_RATE = 1e-5
SMALLEST_SIDE = 24
"""In pixels; of smaller images no patch is left."""


def patch_discriminator(channels: int) -> nn.Sequential:
    """Return PatchGAN's network: convolutions of 4 x 4 and a score for every patch, (k, 1, h, w)."""
    widths, strides = (channels, 64, 128, 256, 512, 1), (2, 2, 2, 1, 1)
    layers: list[nn.Module] = []
    for (before, after), stride in zip(pairwise(widths), strides, strict=True):
        layers += [nn.Conv2d(before, after, 4, stride, padding=1), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


class PatchJudge:
    """The least-squares GAN's loss of a generator, from a discriminator that learns at every call.

    Args:
        channels: of an image.
        device: of the discriminator.
    """

    def __init__(self, channels: int, device: torch.device) -> None:
        self.network = patch_discriminator(channels).to(device)
        self._optimizer = torch.optim.Adam(self.network.parameters(), LEARNING_RATE)

    def __call__(self, images: Tensor, truth: Tensor) -> Tensor:
        """Return how far reconstructions (k, C, H, W) are from passing for real, after one step on both batches."""
        self._optimizer.zero_grad()
        fake, real = self.network(images.detach()), self.network(truth)
        (fake.square().mean() + (real - 1).square().mean()).backward()
        self._optimizer.step()
        judged: Tensor = (self.network(images) - 1).square().mean()
        return judged
