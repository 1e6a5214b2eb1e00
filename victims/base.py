"""A trained victim with the data that made it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch import Tensor, nn

from victims.card import VictimCard
from victims.datasets import Split
from victims.spec import VictimSpec


@dataclass(frozen=True)
class Victim:
    """A trained victim with the data that made it.

    Attributes:
        card: the measurements of it; `card.spec` is its description.
        model: the network, on the CPU, float32.
        split: its training and test data.
        scale: (C, 1, 1), what one unit of an input is in pixels of [0, 1].
        start: the weights that its training started from by parameter name, None where they were not kept.
    """

    card: VictimCard
    model: nn.Module
    split: Split
    scale: np.ndarray = field(default_factory=lambda: np.ones((1, 1, 1), np.float32))
    start: dict[str, Tensor] | None = None

    @property
    def spec(self) -> VictimSpec:
        """The victim's description."""
        return self.card.spec

    def images(self, inputs: np.ndarray) -> np.ndarray:
        """Return the images (k, C, H, W) in [0, 1] that inputs of the network stand for."""
        images: np.ndarray = inputs * self.scale + self.split.mean
        return images.clip(0, 1)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of an image."""
        channels, height, width = self.split.inputs.shape[1:]
        return channels, height, width

    @property
    def unlearnt(self) -> str:
        """What is wrong if it does not classify its training images better than the most frequent class, else empty."""
        if self.spec.loss != "cross-entropy":
            return ""
        largest = float(np.bincount(self.split.labels).max()) / len(self.split.labels)
        accuracy = self.card.train_accuracy
        if accuracy > largest or (accuracy == largest == 1):
            return ""
        hint = "are mean and std those of its training, and the labels its classes?"
        return f"its accuracy on them is {accuracy:.3f}, where the most frequent class has {largest:.3f}; {hint}"

    @property
    def flags(self) -> list[str]:
        """Reasons to read its rows with care."""
        flags = []
        if self.card.train_accuracy < 1:
            flags.append("not_interpolating")
        if self.spec.architecture.biases != "first":
            flags.append("not_homogeneous")
        return flags
