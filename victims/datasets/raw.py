"""A dataset as its source gives it, and the check that a user's file holds one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from victims.errors import UserError

KEYS = ("train_images", "train_labels", "test_images", "test_labels")
_PARTS = ("train", "test")
LIKELY_BYTES = 16
"""Floats from 0 to more than this, and to 255 at most, are bytes that were converted; normalised ones stay below."""


@dataclass(frozen=True)
class RawDataset:
    """Images and labels in the order of their distribution.

    Attributes:
        name: the name the dataset was asked for by.
        train_images: (N, C, H, W) float32 in [0, 1].
        train_labels: (N,) int64, the source's own labels, none negative.
        test_images: (M, C, H, W) float32 in [0, 1]; M = 0 where the source has no test set.
        test_labels: (M,) int64.
    """

    name: str
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray

    def in_order_of(self, retraining: int) -> RawDataset:
        """Return the dataset with its training images in an order drawn from `retraining`, as they are where it is 0.

        A victim that learns the first images then learns different images in every retraining.
        """
        if not retraining:
            return self
        order = np.random.default_rng(retraining).permutation(len(self.train_labels))
        return replace(self, train_images=self.train_images[order], train_labels=self.train_labels[order])


def validate(name: str, arrays: Mapping[str, np.ndarray], where: str) -> RawDataset:
    """Check the arrays of a file and bring them into the form that everything else works with.

    Args:
        name: the name the dataset was asked for by.
        arrays: `train_images`, `train_labels`, `test_images`, `test_labels`. Images are (N, H, W) or (N, H, W, C) with
            C = 1 or 3, uint8 or floats in [0, 1]; labels are (N,) integers, none negative. The test set may be empty.
        where: the file they were read from, for the messages.

    Returns:
        The same images as (N, C, H, W) float32 in [0, 1], and the labels as int64.

    Raises:
        UserError: an array is missing, or does not have the form above; or there are fewer than two classes, or all
            images are the same.
    """
    missing = [key for key in KEYS if key not in arrays]
    if missing:
        raise UserError(f"{where}: no array {', '.join(missing)}; expected the arrays {', '.join(KEYS)}")
    train_images, test_images = (_images(arrays[f"{part}_images"], f"{where}: {part}_images") for part in _PARTS)
    train_labels, test_labels = (_labels(arrays[f"{part}_labels"], f"{where}: {part}_labels") for part in _PARTS)
    for part, images, labels in (("train", train_images, train_labels), ("test", test_images, test_labels)):
        if len(images) != len(labels):
            raise UserError(f"{where}: {len(images)} {part}_images but {len(labels)} {part}_labels; expected as many")
    if len(train_images) == 0:
        raise UserError(f"{where}: train_images is empty; expected at least one image of each class")
    if train_images.shape[1:] != test_images.shape[1:]:
        raise UserError(
            f"{where}: train_images are {train_images.shape[1:]} but test_images {test_images.shape[1:]} "
            "(channels, height, width); expected the same"
        )
    if np.ptp(train_labels) == 0:
        raise UserError(f"{where}: all train_labels are {train_labels[0]}; expected at least two classes")
    if len(train_images) > 1 and (train_images == train_images[0]).all():
        raise UserError(f"{where}: all train_images are the same; expected images that differ")
    return RawDataset(name, train_images, train_labels, test_images, test_labels)


def _images(array: np.ndarray, what: str) -> np.ndarray:
    """Return images as (N, C, H, W) float32 in [0, 1]; UserError, which begins with `what`, where they are none."""
    array = np.asarray(array)
    if array.ndim == 3:
        array = array[..., np.newaxis]
    if array.ndim != 4 or array.shape[3] not in (1, 3) or 0 in array.shape[1:]:
        first = array.ndim == 4 and array.shape[1] in (1, 3)
        hint = "; channels come last: images.transpose(0, 2, 3, 1)" if first else ""
        raise UserError(f"{what} has the shape {array.shape}; expected (N, H, W), (N, H, W, 1) or (N, H, W, 3){hint}")
    if array.dtype != np.uint8 and not np.issubdtype(array.dtype, np.floating):
        raise UserError(f"{what} has the type {array.dtype}; expected uint8, or floats from 0 to 1")
    if array.dtype != np.uint8 and array.size:
        if np.isnan(array).any():
            raise UserError(f"{what} contains NaN; expected floats from 0 to 1")
        low, high = array.min(), array.max()
        if low < 0 or high > 1:
            bytes_of = low >= 0 and LIKELY_BYTES < high <= 255
            hint = "images.astype('uint8') where they are bytes" if bytes_of else "give images before normalisation"
            raise UserError(f"{what} ranges from {low:g} to {high:g}; expected floats from 0 to 1; {hint}")
    images = np.array(array.transpose(0, 3, 1, 2), dtype=np.float32, order="C")
    if array.dtype == np.uint8:
        images /= 255
    return images


def _labels(array: np.ndarray, what: str) -> np.ndarray:
    """Return labels as (N,) int64; UserError, which begins with `what`, where they are none."""
    array = np.asarray(array)
    if array.ndim != 1:
        raise UserError(f"{what} has the shape {array.shape}; expected (N,)")
    if not np.issubdtype(array.dtype, np.integer):
        raise UserError(f"{what} has the type {array.dtype}; expected integers")
    labels = array.astype(np.int64)
    if (labels < 0).any():
        raise UserError(f"{what} contains {labels.min()}; expected labels of 0 and above")
    return labels
