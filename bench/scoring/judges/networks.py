"""The judges' networks: LeNet for grey images, a small residual network for colour."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

Network = Literal["lenet", "resnet"]


def network_for(channels: int) -> Network:
    """Return the network for images of a number of channels: LeNet for one, the residual one for more."""
    return "lenet" if channels == 1 else "resnet"


class Standardize(nn.Module):
    """Brings each channel to mean 0 and standard deviation 1 on the training images; kept with the weights."""

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels, 1, 1))
        self.register_buffer("std", torch.ones(channels, 1, 1))

    def fit(self, images: Tensor) -> None:
        """Take mean and standard deviation from images (N, C, H, W)."""
        std, mean = torch.std_mean(images, dim=(0, 2, 3))
        self.mean.copy_(mean[:, None, None])
        self.std.copy_(std.clamp(min=1e-3)[:, None, None])

    def forward(self, images: Tensor) -> Tensor:
        """Return the standardised images."""
        return (images - self.mean) / self.std


class Residual(nn.Module):
    """Adds to its input what two convolutions make of it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(*_convolution(channels, channels), *_convolution(channels, channels))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return inputs + branch(inputs)."""
        output: Tensor = inputs + self.branch(inputs)
        return output


def _convolution(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()


def _lenet(channels: int, n_classes: int) -> list[nn.Module]:
    """Return the layers of LeNet (LeCun et al. 1998) with ReLU and maxima; the second pooling adapts to any size."""
    return [
        *(nn.Conv2d(channels, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool2d(4)),
        *(nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, n_classes)),
    ]


def _resnet(channels: int, n_classes: int, width: int = 16) -> list[nn.Module]:
    """Return Page's nine-layer residual network (DAWNBench 2018), narrower, with an early pooling: quick on a CPU."""
    return [
        *(*_convolution(channels, width), nn.MaxPool2d(2)),
        *(*_convolution(width, 2 * width), Residual(2 * width), nn.MaxPool2d(2)),
        *(*_convolution(2 * width, 4 * width), Residual(4 * width), nn.MaxPool2d(2)),
        *(*_convolution(4 * width, 8 * width), nn.AdaptiveMaxPool2d(1)),
        *(nn.Flatten(), nn.Linear(8 * width, n_classes)),
    ]


def build(network: Network, channels: int, n_classes: int, generator: torch.Generator) -> nn.Sequential:
    """Return an initialised network on the CPU.

    Weights are drawn from torch's standard U(-1/sqrt(fan_in), 1/sqrt(fan_in)); biases are zero.

    Args:
        network: which one.
        channels: C of the images (k, C, H, W) in [0, 1] that it takes; H and W may be anything from 8 on.
        n_classes: the number of logits that it gives: (k, n_classes).
        generator: the CPU generator that makes the draw reproducible.
    """
    layers = {"lenet": _lenet, "resnet": _resnet}[network](channels, n_classes)
    model = nn.Sequential(Standardize(channels), *layers)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_uniform_(module.weight, a=5**0.5, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    # A third faster on the CPU, and always set, as the rounding of a convolution depends on it.
    return model.to(memory_format=torch.channels_last)
