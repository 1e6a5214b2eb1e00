"""The flags and the result where the layer that an attack on a known start reads shows no image. No torch."""

from __future__ import annotations

from attacks.base import Reconstruction

FIRST_MOVED = "its first layer was trained and sees the images: use kkt-delta"
FIRST_STAYED = "its first layer was not trained and shows no image: use kkt-delta-features"
LAST_ALONE = (
    "only the last layer moved: its difference is one sum of features a class, not one an image; try projection"
)

UNLIKE = "the seed tells its first layer alone: no description here fits which of its layers have biases"
STILL = "the start is the released weights themselves: nothing was trained between them"


def nothing(shape: tuple[int, int, int], *flags: str) -> Reconstruction:
    """Return one candidate of zeros (1, C, H, W), with the reasons as flags."""
    import torch

    return Reconstruction(candidates=torch.zeros(1, *shape), confidence=torch.zeros(1), loss=1.0, flags=flags)
