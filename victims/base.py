"""A trained victim with the data that made it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import bdtrc
from torch import Tensor, nn

from victims.card import VictimCard
from victims.datasets import Split
from victims.datasets.tables import Units
from victims.equations.checkpoint import Checkpoint
from victims.spec import VictimSpec

UNLEARNT = 0.01
"""An accuracy that chance reaches with a larger probability than this counts as chance."""


@dataclass(frozen=True)
class Victim:
    """A trained victim with the data that made it.

    Attributes:
        card: the measurements of it; `card.spec` is its description.
        model: the network, on the CPU, float32.
        split: its training and test data.
        scale: (C, 1, 1), what one unit of an input is in pixels of [0, 1]; (1, 1, d) for the columns of a table.
        start: the weights that its training started from by parameter name, None where they were not kept.
        earlier: the weights that were released on the way, in the order of release.
        momentum: the optimiser's running mean of the gradients by parameter name, None where it was not released.
        checkpoints: what the training went on from after some epochs, in their order; empty if that was not released.
        units: what the columns mean where it was trained on rows of a table; None for images.
    """

    card: VictimCard
    model: nn.Module
    split: Split
    scale: np.ndarray = field(default_factory=lambda: np.ones((1, 1, 1), np.float32))
    start: dict[str, Tensor] | None = None
    earlier: tuple[dict[str, Tensor], ...] = ()
    momentum: dict[str, Tensor] | None = None
    checkpoints: tuple[Checkpoint, ...] = ()
    units: Units | None = None

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
        """What is wrong if the model does not classify its training images better than chance, else an empty string.

        Chance is the most frequent class for all images, and a binomial test says whether the accuracy is above it. The
        string is also empty for a regression, and without images.
        """
        labels, accuracy = self.split.labels, self.card.train_accuracy
        if not len(labels):
            return ""
        largest = float(np.bincount(labels).max()) / len(labels)
        right = round(accuracy * len(labels))
        if self.spec.loss != "cross-entropy" or accuracy == 1:
            return ""
        if accuracy > largest and bdtrc(right - 1, len(labels), largest) < UNLEARNT:  # by chance so many or more
            return ""
        hint = "are mean and std those of its training, and the labels its classes?"
        return f"its accuracy on them is {accuracy:.3f}, where the most frequent class has {largest:.3f}; {hint}"

    @property
    def flags(self) -> list[str]:
        """Reasons to read its rows with care."""
        flags = []
        if self.card.train_accuracy < 1:
            flags.append("not_interpolating")
        if not self.spec.architecture.homogeneous:
            flags.append("not_homogeneous")
        return flags
