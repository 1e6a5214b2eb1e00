"""The photographs: crops that do not overlap, of even contrast in the victim's, the twin's and the held-out set."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from victims.dataset_files import dataset_paths
from victims.datasets import fingerprint, load, select
from victims.datasets.photographs import PARTS, SIDE, photographs

CLASSES = tuple((label,) for label in range(10))


def test_ten_classes_of_twenty_training_and_five_held_out_crops() -> None:
    raw = load("photos", None)
    assert raw.train_images.shape == (200, 3, SIDE, SIDE)
    assert raw.test_images.shape == (50, 3, SIDE, SIDE)
    assert np.bincount(raw.train_labels).tolist() == [20] * 10
    assert np.bincount(raw.test_labels).tolist() == [5] * 10
    assert 0 <= raw.train_images.min() < 0.1
    assert 0.9 < raw.train_images.max() <= 1
    assert len({image.tobytes() for image in (*raw.train_images, *raw.test_images)}) == 250


def test_victim_twin_and_held_out_crops_have_the_same_contrast() -> None:
    raw = load("photos", None)
    victim, twin = (select(raw, 100, CLASSES, skip_first=skip) for skip in (False, True))
    assert not {*victim.indices} & {*twin.indices}
    contrasts = [images.std(axis=(1, 2, 3)).mean() for images in (victim.images, twin.images, raw.test_images)]
    assert max(contrasts) / min(contrasts) < 1.1


def test_a_crop_is_the_mean_over_its_square_of_the_photograph() -> None:
    path = next(path for path in dataset_paths("photos", None) if path.stem == "astronaut")
    pixels = np.asarray(Image.open(path).convert("RGB"), np.float64) / 255
    side = min(pixels.shape[:2]) // PARTS
    squares = [
        pixels[y * side : (y + 1) * side, x * side : (x + 1) * side].mean(axis=(0, 1))
        for y in range(pixels.shape[0] // side)
        for x in range(pixels.shape[1] // side)
    ]
    raw = photographs([path])
    for crop in (*raw.train_images, *raw.test_images):
        assert min(np.abs(crop.mean(axis=(1, 2)) - square).max() for square in squares) < 0.005


def test_the_fingerprint_is_of_all_files(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fingerprint("photos", None)
    files = dataset_paths("photos", None)
    monkeypatch.setattr("victims.dataset_files.dataset_paths", lambda name, data_dir: files[:-1])
    assert fingerprint("photos", None) != whole
