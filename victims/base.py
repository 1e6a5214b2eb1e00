"""A trained victim with the data that made it."""

from __future__ import annotations

from dataclasses import dataclass

from victims.architectures import ReLUNetwork
from victims.card import VictimCard
from victims.datasets import Split
from victims.spec import VictimSpec


@dataclass(frozen=True)
class Victim:
    """A trained victim with the data that made it.

    Attributes:
        card: what is known of it; `card.spec` is its description.
        model: the network, on the CPU, float32.
        split: its training and test data.
    """

    card: VictimCard
    model: ReLUNetwork
    split: Split

    @property
    def spec(self) -> VictimSpec:
        """The victim's description."""
        return self.card.spec

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of an image."""
        channels, height, width = self.split.inputs.shape[1:]
        return channels, height, width

    @property
    def flags(self) -> list[str]:
        """Reasons to read its rows with care."""
        flags = []
        if self.card.train_accuracy < 1:
            flags.append("not_interpolating")
        if self.spec.architecture.biases == "all":
            flags.append("not_homogeneous")
        return flags
