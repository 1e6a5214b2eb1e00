"""What stands before the first fully connected layer that a training moved: convolutions, or layers that stayed.

That layer sees features phi(x; theta_t), not images, and its difference is a sum over them:

    W - c W(0) = sum_i D_i phi(x_i; theta_t)'.

Its rows show the span of the training images' features. The features of any other image leave it, because the front
maps no combination of images to the combination of their features (span checks after Petrov et al. 2024, DAGER).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from victims.equations.network import Network, layer_weights

MEAN, VARIANCE = "running_mean", "running_var"
"""Suffixes of the names of batch normalisation's statistics."""


@dataclass(frozen=True)
class FeatureExtractor:
    """The part of a network before its first fully connected layer that moved, at one point of the way.

    Attributes:
        network: the whole network there, in evaluation mode; its fully connected layers, and plain convolutions before
            them, are `layers`.
        stayed: how many of these belong to the front: all convolutions, and the layers that did not move.
    """

    network: nn.Module
    stayed: int

    @classmethod
    def of(
        cls,
        build: Callable[[], nn.Module],
        start: Mapping[str, Tensor],
        end: Mapping[str, Tensor],
        share: float,
        stayed: int,
    ) -> FeatureExtractor:
        """Return the front at a share in [0, 1] of the straight way, its running statistics too.

        Args:
            build: returns the network with arbitrary weights.
            start: its state at the beginning.
            end: its state as released.
            share: of the way.
            stayed: how many of `layers` belong to the front.
        """
        return cls(network_between(build, start, end, share), stayed)

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features (m, f) of images (m, C, H, W), with the gradient by them."""
        return self._maps(images).flatten(1)

    @torch.no_grad()
    def maps(self, shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return (channels, height, width) of the feature maps of an image (C, H, W); rows are maps of one pixel."""
        like = next(self.network.parameters())
        found = self._maps(torch.zeros(1, *shape).to(like)).shape[1:]
        channels, height, width = found if len(found) == len(shape) else (found.numel(), 1, 1)
        return channels, height, width

    @property
    def pools(self) -> bool:
        """Whether the front pools, by a module or by a function in a graph of torch.fx."""
        before = getattr(self.network, "front", None)
        if before is None:
            return False
        called = before.graph.nodes if isinstance(before, fx.GraphModule) else ()
        names = (*(type(one).__name__ for one in before.modules()), *(node.name for node in called))
        return any("pool" in name.lower() for name in names)

    def _maps(self, images: Tensor) -> Tensor:
        """Return the features as the front makes them: feature maps (m, C', H', W'), or rows (m, f)."""
        before, layers = getattr(self.network, "front", None), self.network.layers
        assert isinstance(layers, nn.ModuleList)
        hidden: Tensor = images if before is None else before(images)
        for layer in layers[: self.stayed]:
            hidden = torch.relu(layer(hidden if isinstance(layer, nn.Conv2d) else hidden.flatten(1)))
        return hidden


def network_between(
    build: Callable[[], nn.Module], start: Mapping[str, Tensor], end: Mapping[str, Tensor], share: float
) -> nn.Module:
    """Return the network at a share in [0, 1] of the straight way, its running statistics too, in evaluation mode.

    Statistics that the start has of no batch are those of the end: no batch was ever normalised by a mean of 0.

    Args:
        build: returns the network with arbitrary weights.
        start: its state at the beginning.
        end: its state as released.
        share: of the way.
    """
    network, blank = build(), without_batches(start)
    network.load_state_dict(
        {
            name: end[name] if name in blank or not value.is_floating_point() else torch.lerp(value, end[name], share)
            for name, value in start.items()
        }
    )
    return network.eval().requires_grad_(False)


def without_batches(state: Mapping[str, Tensor]) -> set[str]:
    """Return the names of running statistics that are as torch begins them, a mean of 0 and a variance of 1."""
    begun = set[str]()
    for name, mean in state.items():
        variance = f"{name.removesuffix(MEAN)}{VARIANCE}"
        if name.endswith(MEAN) and not mean.any() and bool((state[variance] == 1).all()):
            begun |= {name, variance}
    return begun


def convolutions(state: Mapping[str, Tensor]) -> int:
    """Return how many of `layers` are plain convolutions, which come first."""
    return sum(weight.ndim == 4 for weight in layer_weights(state))


def moved_convolutions(start: Mapping[str, Tensor], end: Mapping[str, Tensor]) -> tuple[tuple[int, int], ...]:
    """Return the shapes (h, d) of the convolutions' weights before a head that a training moved, each as a matrix.

    Other weights that a front may have, such as matrices of its own, are left out.
    """
    before = [name for name, value in start.items() if value.ndim == 4 and not name.startswith("tail.")]
    moved = [end[name].flatten(1) for name in before if not start[name].equal(end[name])]
    return tuple((len(matrix), matrix.shape[1]) for matrix in moved)


def head(state: Mapping[str, Tensor], stayed: int) -> Network:
    """Return the fully connected network on the features: all `layers` but the first `stayed`."""
    whole = Network.of(state)
    return Network(whole.weights[stayed:], whole.biases[stayed:])
