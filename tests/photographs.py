"""Colour images that need no download: crops of the photographs inside scikit-image and scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from skimage import data
from sklearn.datasets import load_sample_images

SIDE, BLOCK = 32, 3
"""A crop is SIDE x SIDE pixels, each the mean of BLOCK x BLOCK of the photograph."""
CONTRAST = 0.1
"""The least standard deviation of a crop's values in [0, 1]: less is sky or a wall, which looks like anything."""


def crops() -> np.ndarray:
    """Return 100 crops (100, SIDE, SIDE, 3) in [0, 1], none overlapping another, shuffled."""
    tiles = []
    for photograph in (data.astronaut(), data.chelsea(), data.coffee(), data.rocket(), *load_sample_images().images):
        rows, columns = (length // (SIDE * BLOCK) for length in photograph.shape[:2])
        whole = photograph[: rows * SIDE * BLOCK, : columns * SIDE * BLOCK] / 255
        means = whole.reshape(rows, SIDE, BLOCK, columns, SIDE, BLOCK, 3).mean(axis=(2, 5))
        tiles.append(means.transpose(0, 2, 1, 3, 4).reshape(-1, SIDE, SIDE, 3))
    images = np.concatenate(tiles).astype(np.float32)
    images = images[images.std(axis=(1, 2, 3)) > CONTRAST]
    return images[np.random.default_rng(0).permutation(len(images))]


def write_photographs(path: Path, n_train: int, n_classes: int) -> None:
    """Write the crops to an npz file, `n_train` of them for training, with classes dealt out in turn."""
    images = crops()
    labels = np.arange(len(images)) % n_classes
    np.savez(
        path,
        train_images=images[:n_train],
        train_labels=labels[:n_train],
        test_images=images[n_train:],
        test_labels=labels[n_train:],
    )
