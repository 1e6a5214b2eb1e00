"""Reconstructions beside their training images, as pictures that a page holds itself."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.image import imsave
from numpy.typing import NDArray

from bench.publish.report.files import GROUPS, LAYERS, Examples

_SEAM = 1
"""Transparent pixels between the images of a stack."""
_WIDTH = 64
"""About how wide an image is shown, in CSS pixels; every pixel of the data is the same whole number of them."""


@dataclass(frozen=True)
class Stack:
    """One reconstruction above its training image and the held-out image nearest to that.

    Attributes:
        uri: the picture, one pixel a pixel of the data.
        ssim: of the two upper images.
        image: index of the training image.
    """

    uri: str
    ssim: float
    image: int


@dataclass(frozen=True)
class Pictures:
    """The stacks of one run, all of one size.

    Attributes:
        layers: what is seen in a stack, from top to bottom.
        groups: the stacks of each of `GROUPS` that has any.
        width: of a stack, in CSS pixels.
        step: from one image of a stack to the next, likewise.
    """

    layers: tuple[str, ...]
    groups: dict[str, list[Stack]]
    width: int
    step: int


def pictures(examples: Examples, most: int, groups: Sequence[str] = GROUPS) -> Pictures:
    """Return the stacks of a run, at most so many of each of these groups."""
    chosen = {
        name: np.flatnonzero(examples.group == place)[:most] for place, name in enumerate(GROUPS) if name in groups
    }
    stacks = {
        name: [Stack(stack_uri(examples.stacks[i]), float(examples.ssim[i]), int(examples.image[i])) for i in places]
        for name, places in chosen.items()
        if len(places)
    }
    layers, height, width = examples.stacks.shape[1:4]
    scale = max(1, round(_WIDTH / width))
    return Pictures(LAYERS[:layers], stacks, width * scale, (height + _SEAM) * scale)


def stack_uri(stack: NDArray[np.uint8]) -> str:
    """Return images (S, H, W, 3), one above the other, as a lossless WebP in a data URI."""
    count, height, width, _ = stack.shape
    canvas = np.zeros((count * (height + _SEAM) - _SEAM, width, 4), dtype=np.uint8)
    for place, image in enumerate(stack):
        top = place * (height + _SEAM)
        canvas[top : top + height, :, :3] = image
        canvas[top : top + height, :, 3] = 255
    return webp_uri(canvas)


def webp_uri(canvas: NDArray[np.uint8]) -> str:
    """Return pixels (H, W, 4) as a lossless WebP in a data URI, which is half as long as a PNG."""
    buffer = io.BytesIO()
    imsave(buffer, canvas, format="webp", pil_kwargs={"lossless": True, "quality": 100, "method": 4})
    return f"data:image/webp;base64,{base64.b64encode(buffer.getvalue()).decode()}"
