"""Who holds which record of the informed setting, and what is wrong with a request that cannot be met."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from victims.datasets import load
from victims.errors import UserError
from victims.informed.data import InformedSplit, Records, split_of
from victims.informed.spec import DenseSpec, GLMArchitecture, GLMSpec, InformedSpec


def records(values: list[float]) -> Records:
    images = np.array(values, dtype=np.float32).reshape(-1, 1, 1, 1).repeat(2, 3)
    return Records(images, np.zeros(len(values), dtype=np.int64))


def written(folder: Path, name: str, images: np.ndarray, labels: np.ndarray) -> Path:
    part = {"train_images": images, "train_labels": labels, "test_images": images[:0], "test_labels": labels[:0]}
    np.savez(folder / f"{name}.npz", **part)
    return folder


def test_the_first_records_are_known_the_next_secret_and_the_rest_the_pool() -> None:
    split = split_of(InformedSpec(name="digits-x", dataset="digits", n=50, targets=7), None)
    raw = load("digits", None)
    assert np.array_equal(split.fixed.images, raw.train_images[:50])
    assert np.array_equal(split.targets.labels, raw.train_labels[50:57])
    assert np.array_equal(split.pool.images, raw.train_images[57:])
    assert len(split.test) and not {image.tobytes() for image in split.targets.images} & {
        image.tobytes() for image in split.test.images
    }


def test_two_classes_are_those_of_the_other_victims_and_a_regression_keeps_its_labels() -> None:
    even = split_of(GLMSpec(name="digits-x", dataset="digits", n=50, targets=7), None)
    assert np.array_equal(even.fixed.labels, load("digits", None).train_labels[:50] % 2)
    progress = split_of(
        GLMSpec(name="x", dataset="diabetes", n=50, targets=7, architecture=GLMArchitecture(family="linear")), None
    )
    assert progress.fixed.labels.max() > 100
    assert progress.fixed.images.shape[1:] == (1, 1, 10)
    assert progress.fixed.images.min() >= 0 and progress.fixed.images.max() <= 1


def test_more_targets_than_images_is_one_line() -> None:
    line = "digits-x: 50 fixed records and 5000 targets need 5050 training images, but digits has 1797"
    with pytest.raises(UserError, match=line):
        split_of(InformedSpec(name="digits-x", dataset="digits", n=50, targets=5000), None)


def test_a_target_that_is_known_is_no_secret(tmp_path: Path) -> None:
    fixed, pool = records([0.1, 0.2]), records([0.5])
    InformedSplit(fixed, records([0.3]), pool, pool)
    with pytest.raises(UserError, match="target 1 is also record 0 of the fixed set"):
        InformedSplit(fixed, records([0.3, 0.1]), pool, pool)
    with pytest.raises(UserError, match="target 0 is also record 0 of the shadow pool"):
        InformedSplit(fixed, records([0.5]), pool, pool)
    images = np.random.default_rng(0).random((20, 8, 8)).astype(np.float32)
    images[12] = images[3]
    folder = written(tmp_path, "twice", images, np.arange(20) % 2)
    with pytest.raises(UserError, match="target 2 is also record 3 of the fixed set"):
        split_of(InformedSpec(name="twice-x", dataset="twice", n=10, targets=5), folder)


def test_shadows_of_another_distribution(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    folder = written(tmp_path, "strange", random.random((30, 8, 8)).astype(np.float32), np.arange(30) % 10)
    split = split_of(InformedSpec(name="x", dataset="digits", n=50, targets=7, shadow_dataset="strange"), folder)
    assert np.array_equal(split.pool.images, load("strange", folder).train_images)
    written(tmp_path, "large", random.random((30, 9, 9)).astype(np.float32), np.arange(30) % 10)
    with pytest.raises(UserError, match=r"images of the shadow dataset large are \(1, 9, 9\), not \(1, 8, 8\)"):
        split_of(InformedSpec(name="x", dataset="digits", n=50, targets=7, shadow_dataset="large"), folder)


def test_a_label_that_the_model_does_not_have() -> None:
    with pytest.raises(UserError, match="digits has the label 9; the model has 3"):
        split_of(InformedSpec(name="x", dataset="digits", n=50, targets=7, architecture=DenseSpec(outputs=3)), None)
