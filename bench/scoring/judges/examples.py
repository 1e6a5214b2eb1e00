"""The training data of a judge: all images of a dataset with their original labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from victims.datasets import RawDataset
from victims.errors import UserError

SIDES = (8, 64)
"""Smallest and largest height and width in pixels that a judge takes."""

PER_CLASS = 10
"""Fewest training images per class, on average, that are worth learning from."""


class JudgeUnavailableError(UserError):
    """No judge can be trained on a dataset; the message is one line that says why."""


@dataclass(frozen=True)
class Examples:
    """Images for training and, apart from them, for measuring the accuracy.

    Attributes:
        images: (N, C, H, W) float32 in [0, 1].
        labels: (N,) int64, classes 0 to n_classes - 1: the source's labels in ascending order.
        test_images: (M, C, H, W) float32 in [0, 1], M > 0.
        test_labels: (M,) int64.
        held_out: whether the test images were taken from the training set, for want of a test set.
        n_classes: the number of classes.
    """

    images: Tensor
    labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    held_out: bool
    n_classes: int


def examples(raw: RawDataset) -> Examples:
    """Return all of a dataset's training images, and its test set or, without one, every fifth image by class.

    Args:
        raw: the dataset. Test images of a label that no training image has are left out.

    Raises:
        JudgeUnavailableError: the images are too small or too large, too few, or all of one class.
    """
    height, width = raw.train_images.shape[2:]
    if not SIDES[0] <= min(height, width) <= max(height, width) <= SIDES[1]:
        raise JudgeUnavailableError(
            f"no judge for {raw.name}: images are {height} x {width} pixels; expected sides of {SIDES[0]} to {SIDES[1]}"
        )
    classes, labels = np.unique(raw.train_labels, return_inverse=True)
    known = np.isin(raw.test_labels, classes)
    held_out = not known.any()
    if held_out:
        test = np.sort(np.argsort(labels, kind="stable")[4::5])
        test_images, test_labels = raw.train_images[test], labels[test]
        images, labels = np.delete(raw.train_images, test, axis=0), np.delete(labels, test)
    else:
        images = raw.train_images
        test_images, test_labels = raw.test_images[known], np.searchsorted(classes, raw.test_labels[known])
    if len(classes) < 2 or len(images) < PER_CLASS * len(classes):
        raise JudgeUnavailableError(
            f"no judge for {raw.name}: {len(images)} training images of {len(classes)} classes; "
            f"expected at least two classes, and {PER_CLASS} images of each"
        )
    return Examples(
        images=torch.from_numpy(images),
        labels=torch.from_numpy(labels),
        test_images=torch.from_numpy(test_images),
        test_labels=torch.from_numpy(test_labels),
        held_out=held_out,
        n_classes=len(classes),
    )
