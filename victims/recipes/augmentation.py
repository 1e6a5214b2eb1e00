"""What the images of a batch go through before a network sees them, as a frozen description. Imports no torch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt, model_validator

from victims.frozen_model import FrozenModel, omitted_if_default


class Augmentation(FrozenModel):
    """Changes of images that are drawn anew at every step.

    Attributes:
        flip: whether an image is mirrored left to right, with probability one half.
        crop: black pixels that are added on every side; a part of the image's size is then cut out at random.
        jitter: largest relative change, up or down, of an image's brightness, contrast and saturation, in [0, 1].
        erase: probability that a rectangle of an image is set to zero: .02 to .33 of its area (Zhong et al. 2020 draw
            its pixels at random).
        mixup: whether a batch is mixed with itself in another order, by a share that is drawn from U(0, 1); its labels
            count by the same shares (Zhang et al. 2018, at their alpha of 1 for CIFAR-10).
        cutmix: whether a rectangle of a batch's images comes from itself in another order; the labels count by the
            shares of the area, the first drawn from U(0, 1) (Yun et al. 2019, at their alpha of 1).
    """

    flip: bool = False
    crop: NonNegativeInt = 0
    jitter: Annotated[float, Field(ge=0, le=1), omitted_if_default(0.0)] = 0.0
    erase: Annotated[float, Field(ge=0, le=1), omitted_if_default(0.0)] = 0.0
    mixup: bool = False
    cutmix: Annotated[bool, omitted_if_default(False)] = False

    @model_validator(mode="after")
    def _mixes_once(self) -> Augmentation:
        if self.mixup and self.cutmix:
            raise ValueError("a batch is mixed once: set mixup or cutmix, not both")
        return self

    @property
    def label(self) -> str:
        """Short text for tables."""
        named = {
            "flips": self.flip,
            f"crops of {self.crop}": bool(self.crop),
            f"jitter of {self.jitter:g}": bool(self.jitter),
            f"erasing of {self.erase:g}": bool(self.erase),
            "mixup": self.mixup,
            "cutmix": self.cutmix,
        }
        return ", ".join(name for name, done in named.items() if done)
