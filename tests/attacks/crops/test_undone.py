"""Parts of images with black borders, moved back to where they were cut."""

from __future__ import annotations

import pytest
import torch
from cropping import BLACK, CROP, MOVES, moved, scenes

from attacks.crops.undone import uncropped
from victims.ordinary.augmentation import Augmenter
from victims.recipes import Augmentation


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_every_movement_is_undone(scale: float) -> None:
    images = scenes(len(MOVES))
    views = torch.stack([moved(image, *move) for image, move in zip(images, MOVES, strict=True)])
    found = uncropped(views * scale, CROP) / scale
    for back, image, (down, right) in zip(found, images, MOVES, strict=True):
        rows = torch.arange(14).clamp(max(-down, 0), 13 - max(down, 0))
        columns = torch.arange(16).clamp(max(-right, 0), 15 - max(right, 0))
        torch.testing.assert_close(back, image[:, rows][:, :, columns])


def test_images_without_a_border_stay() -> None:
    images = scenes(20)
    assert torch.equal(uncropped(images, CROP), images)
    dark_but_not_flat = scenes(20) - 2.0
    assert torch.equal(uncropped(dark_but_not_flat, CROP), dark_but_not_flat)
    bright = images.clone()
    bright[:, :, :2] = 2.0
    assert torch.equal(uncropped(bright, CROP), bright)


def test_without_crops_nothing_moves() -> None:
    views = torch.stack([moved(image, 2, -1) for image in scenes(4)])
    assert torch.equal(uncropped(views, 0), views)


def test_it_undoes_what_a_training_does() -> None:
    images = scenes(60)
    views = Augmenter(Augmentation(crop=CROP), 0.0, BLACK, 1.0, seed=0).moved(images)
    assert not torch.equal(views, images)
    inner = (slice(None), slice(None), slice(CROP, -CROP), slice(CROP, -CROP))
    torch.testing.assert_close(uncropped(views, CROP)[inner], images[inner])
