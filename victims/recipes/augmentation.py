"""What the images of a batch go through before a network sees them, as a frozen description. Imports no torch."""

from __future__ import annotations

from pydantic import NonNegativeInt

from victims.frozen_model import FrozenModel


class Augmentation(FrozenModel):
    """Changes of images that are drawn anew at every step.

    Attributes:
        flip: whether an image is mirrored left to right, with probability one half.
        crop: black pixels that are added on every side; a part of the image's size is then cut out at random.
        mixup: whether a batch is mixed with itself in another order, by a share that is drawn from U(0, 1); its labels
            count by the same shares (Zhang et al. 2018, at their alpha of 1 for CIFAR-10).
    """

    flip: bool = False
    crop: NonNegativeInt = 0
    mixup: bool = False

    @property
    def label(self) -> str:
        """Short text for tables."""
        named = {"flips": self.flip, f"crops of {self.crop}": bool(self.crop), "mixup": self.mixup}
        return ", ".join(name for name, done in named.items() if done)
