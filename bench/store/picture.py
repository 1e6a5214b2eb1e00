"""Pictures as PNGs; that of the best reconstructions above the training images they match."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from victims.files import atomic

if TYPE_CHECKING:
    from torch import Tensor

BEST, COLUMNS = 40, 10
"""The most pairs, and the most in a row."""
_DPI = 100
_SIDE, _SEAM, _GAP, _CAPTION, _HEAD = 80, 2, 6, 16, 40
"""In pixels: least width of an enlarged image, space inside a pair and between pairs, height of caption and heading."""

_LEGEND = "above: reconstruction, below: its training image, number: SSIM"
_WHATEVER = " of the pair, the nearest by haim2022-min where all images are sought; the title may count by another rule"
_LETTER = 5.2
"""Width of a letter of the legend, in pixels."""


def _pixels(image: Tensor, scale: int) -> np.ndarray:
    """Return an image (C, H, W) in [0, 1] as (H scale, W scale, 3) bytes, each pixel a square of scale x scale."""
    array = image.detach().cpu().float().nan_to_num().clamp(0, 1).mul(255).round().byte().permute(1, 2, 0).numpy()
    colour = np.broadcast_to(array, (*array.shape[:2], 3))
    return colour.repeat(scale, axis=0).repeat(scale, axis=1)


def save_png(figure: Figure, path: Path, **options: Any) -> None:
    """Write a figure as a PNG that does not say which version of the program wrote it; it appears whole or not at all.

    Args:
        figure: the figure.
        path: where to write; its folder is made.
        options: more of matplotlib's `savefig`.
    """
    with atomic(path) as temporary:
        figure.savefig(temporary, format="png", metadata={"Software": None}, **options)


def grid(path: Path, truth: Tensor, reconstruction: Tensor, ssim: Tensor, title: str = "") -> None:
    """Write a PNG of the best pairs by SSIM, best first; the file appears whole or not at all.

    Args:
        path: where to write; its folder must exist.
        truth: (n, C, H, W) training images in [0, 1], C being 1 or 3.
        reconstruction: (n, C, H, W) in [0, 1]; each is drawn directly above its training image.
        ssim: (n,) the score of each pair, by which they are ordered and which stands under them; NaN comes last.
        title: heading of the picture.

    Raises:
        ValueError: there is nothing to draw, or the shapes do not fit.
    """
    if (
        truth.shape != reconstruction.shape
        or truth.ndim != 4
        or truth.shape[1] not in (1, 3)
        or len(ssim) != len(truth)
    ):
        raise ValueError(
            f"cannot draw {tuple(truth.shape)} against {tuple(reconstruction.shape)} with {len(ssim)} scores"
        )
    values = ssim.detach().cpu().float()
    chosen = values.nan_to_num(nan=-2.0).argsort(descending=True, stable=True)[:BEST].tolist()
    if not chosen:
        raise ValueError("a picture needs at least one pair")

    scale = max(1, -(-_SIDE // truth.shape[3]))
    height, width = truth.shape[2] * scale, truth.shape[3] * scale
    columns = min(COLUMNS, len(chosen))
    rows = -(-len(chosen) // columns)
    pair_height = 2 * height + _SEAM
    cell_height, cell_width = pair_height + _CAPTION + _GAP, width + _GAP
    canvas = np.full((_HEAD + rows * cell_height, _GAP + columns * cell_width, 3), 255, dtype=np.uint8)

    figure = Figure(dpi=_DPI)
    total_height, total_width = canvas.shape[:2]
    for position, sample in enumerate(chosen):
        row, column = divmod(position, columns)
        top, left = _HEAD + row * cell_height, _GAP + column * cell_width
        canvas[top : top + height, left : left + width] = _pixels(reconstruction[sample], scale)
        canvas[top + height + _SEAM : top + pair_height, left : left + width] = _pixels(truth[sample], scale)
        place = (left + width / 2) / total_width, 1 - (top + pair_height + _CAPTION / 2) / total_height
        figure.text(*place, f"{values[sample]:.2f}", fontsize=8, ha="center", va="center")
    figure.figimage(canvas, resize=True)
    figure.text(_GAP / total_width, 1 - 12 / total_height, title, fontsize=9, weight="bold", va="center")
    legend = _LEGEND + _WHATEVER if _LETTER * len(_LEGEND + _WHATEVER) < total_width else _LEGEND
    figure.text(_GAP / total_width, 1 - 29 / total_height, legend, fontsize=7, color="0.4", va="center")

    save_png(figure, path, pil_kwargs={"optimize": True})
