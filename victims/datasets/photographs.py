"""Colour images that need no download: crops of the photographs inside scikit-image and scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from victims.datasets.raw import RawDataset

SIDE = 32
PARTS = 6
"""A crop is a square of a sixth of the photograph's shorter side, reduced to SIDE x SIDE by area."""
TRAINING, HELD_OUT = (0, 3, 1, 4), 2
"""Of five crops in the order of contrast two are a victim's, two its disjoint twin's, and one is held out."""
GROUPS_OF_FIVE = 5
"""Of each photograph the 25 crops of the highest contrast are taken."""


def photographs(paths: Sequence[Path]) -> RawDataset:
    """Return 20 training and 5 held-out crops of each photograph; its place in `paths` is its label.

    No crop overlaps another. The crops with the highest standard deviation over all pixels and channels are chosen,
    because plain sky or wall looks like anything. Training, twin and held-out crops are dealt out in turn from that
    order, so that none of the sets has more contrast than another.

    Args:
        paths: the files of the photographs.

    Returns:
        Images (k, 3, 32, 32) float32 in [0, 1]; the first half of each label's training images is the victim's when
        ten are taken.
    """
    training, held_out = [], []
    for path in paths:
        crops = _crops(path)
        order = np.argsort(-crops.std(axis=(1, 2, 3)), kind="stable")[: 5 * GROUPS_OF_FIVE].reshape(-1, 5)
        first, second = order[:, TRAINING[:2]].ravel(), order[:, TRAINING[2:]].ravel()
        training.append(crops[np.concatenate([first, second])])
        held_out.append(crops[order[:, HELD_OUT]])
    labels = np.arange(len(paths))
    return RawDataset(
        "photos",
        np.concatenate(training),
        labels.repeat(len(training[0])),
        np.concatenate(held_out),
        labels.repeat(len(held_out[0])),
    )


def _crops(path: Path) -> np.ndarray:
    """Return the squares of a grid over a photograph, row by row: (k, 3, SIDE, SIDE) float32 in [0, 1]."""
    with Image.open(path) as opened:
        photograph = opened.convert("RGB")
    side = min(photograph.size) // PARTS
    columns, rows = (length // side for length in photograph.size)
    boxes = [(x * side, y * side, (x + 1) * side, (y + 1) * side) for y in range(rows) for x in range(columns)]
    reduced = [photograph.resize((SIDE, SIDE), Image.Resampling.BOX, box=box) for box in boxes]
    return np.stack([np.asarray(crop, np.float32).transpose(2, 0, 1) for crop in reduced]) / np.float32(255)
