"""Judges: what they learn, the divergence that they measure, and the cache that keeps them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from bench.scoring.judges import Judge, JudgeUnavailableError, obtain_judge
from bench.scoring.judges.examples import examples
from bench.scoring.judges.networks import build, network_for
from bench.scoring.judges.obtain import judge_folder
from bench.scoring.judges.training import RECIPES, augment, train
from victims import datasets
from victims.datasets import RawDataset
from victims.errors import UserError
from victims.files import sha256_file

CPU = torch.device("cpu")
SHAPE = (1, 8, 8)
DATA = os.environ.get("BENCH_DATA_DIR")
"""Read before the tests' own fixture hides it."""

Obtain = Callable[[str], tuple[Judge, int, list[str]]]


def ask(dataset: str, data_dir: Path | None = None) -> tuple[Judge, int, list[str]]:
    """Return the judge of a dataset, and how many progress reports and which notices it caused."""
    reports: list[tuple[int, int, dict[str, float]]] = []
    notices: list[str] = []
    judge = obtain_judge(dataset, data_dir, CPU, lambda *report: reports.append(report), notices.append)
    if reports:
        assert reports[-1][0] == reports[-1][1] == judge.card.steps
        assert set(reports[-1][2]) == {"loss", "accuracy"}
    return judge, len(reports), notices


def two_colours(n: int = 60) -> dict[str, np.ndarray]:
    """A dataset of reddish and bluish noise, labels 3 and 7, whose last test image is of a label never seen."""
    rng = np.random.default_rng(0)

    def part(size: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.where(np.arange(size) % 2, 7, 3)
        images = rng.integers(0, 128, (size, 8, 8, 3), dtype=np.uint8)
        images[..., 0] += np.where(labels == 3, 100, 0).astype(np.uint8)[:, None, None]
        images[..., 2] += np.where(labels == 7, 100, 0).astype(np.uint8)[:, None, None]
        return images, labels

    (train_images, train_labels), (test_images, test_labels) = part(n), part(21)
    test_labels[-1] = 9
    return {
        "train_images": train_images,
        "train_labels": train_labels,
        "test_images": test_images,
        "test_labels": test_labels,
    }


BRIEF = replace(RECIPES["resnet"], steps=(5, 5))
"""A training that costs nothing, for tests in which it does not matter what is learnt."""


# What a judge learns.


def test_a_judge_of_digits_knows_digits_it_has_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path / "cache"))
    judge, reports, notices = ask("digits")
    assert reports > 0 and notices == []
    card = judge.card
    assert (card.network, card.shape, card.n_classes, card.held_out) == ("lenet", SHAPE, 10, True)
    assert (card.n_train, card.n_test) == (1438, 359)
    assert card.accuracy >= 0.95
    assert judge.label == f"judge lenet on digits, accuracy {card.accuracy:.3f}"

    known = examples(datasets.load("digits", None))
    logits = judge.model(known.test_images).detach()
    assert card.accuracy == pytest.approx(float((logits.argmax(1) == known.test_labels).double().mean()))
    assert card.loss == pytest.approx(float(F.cross_entropy(logits, known.test_labels)), rel=1e-4)

    scrambled = known.test_images.flatten(2)[..., torch.randperm(64, generator=torch.Generator().manual_seed(0))]
    noisy = known.test_images + 0.05 * torch.randn(known.test_images.shape, generator=torch.Generator().manual_seed(0))
    near, far = (judge.kl(images, known.test_images) for images in (noisy, scrambled.view_as(noisy)))
    assert near.mean() < 0.1
    assert far.mean() > 1


def test_colour_images_and_labels_of_any_number(tmp_path: Path) -> None:
    np.savez(tmp_path / "colours.npz", **two_colours())
    judge, _, _ = ask("colours", tmp_path)
    card = judge.card
    assert (card.network, card.shape, card.n_classes, card.held_out) == ("resnet", (3, 8, 8), 2, False)
    assert (card.n_train, card.n_test, card.accuracy) == (60, 20, 1.0)


def test_the_held_out_fifth_is_of_every_class_and_not_learnt() -> None:
    raw = datasets.load("faces", None)
    known = examples(raw)
    assert known.held_out and known.test_labels.bincount().tolist() == [20, 20]
    assert known.labels.bincount().tolist() == [80, 80]
    together = torch.cat([known.images, known.test_images]).flatten(1).numpy()
    everything = raw.train_images.reshape(200, -1)
    assert np.array_equal(np.unique(together, axis=0), np.unique(everything, axis=0))


def test_the_held_out_fifth_is_of_every_class_in_any_order() -> None:
    known = examples(datasets.load("digits", None))
    together = known.labels.bincount() + known.test_labels.bincount()
    assert torch.equal(known.test_labels.bincount(), together.cumsum(0) // 5 - (together.cumsum(0) - together) // 5)


def test_a_judge_standardises_by_the_images_that_it_is_trained_on() -> None:
    known = examples(datasets.raw.validate("colours", two_colours(), "here"))
    model = build("resnet", 3, 2, torch.Generator().manual_seed(0))
    train(model, known.images, known.labels, BRIEF, torch.Generator().manual_seed(0), lambda *_: None)
    shown = model[0](known.images)
    torch.testing.assert_close(shown.mean((0, 2, 3)), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(shown.std((0, 2, 3)), torch.ones(3), atol=1e-4, rtol=0)


def test_labels_become_classes_and_unknown_ones_are_left_out() -> None:
    raw = datasets.raw.validate("colours", two_colours(), "here")
    known = examples(raw)
    assert known.labels[:4].tolist() == [0, 1, 0, 1]
    assert len(known.images) == 60 and known.test_labels.tolist() == [0, 1] * 10


@pytest.mark.parametrize(
    ("n", "n_classes", "side", "reason"),
    [
        (0, 1, 8, "0 training images"),
        (50, 1, 8, "of 1 classes"),
        (40, 5, 8, "40 training images of 5 classes"),
        (100, 2, 7, "7 x 7 pixels"),
        (100, 2, 65, "65 x 65 pixels"),
    ],
)
def test_a_dataset_that_teaches_nothing_has_no_judge(n: int, n_classes: int, side: int, reason: str) -> None:
    images, labels = np.zeros((n, 1, side, side), np.float32), np.arange(n) % n_classes
    raw = RawDataset("little", images, labels, images[:3], labels[:3])
    with pytest.raises(JudgeUnavailableError, match=reason) as raised:
        examples(raw)
    assert "little" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "shape", [(1, 8, 8), (1, 25, 25), (1, 28, 20), (1, 64, 64), (3, 8, 8), (3, 32, 32), (3, 64, 50)]
)
def test_networks_take_every_size(shape: tuple[int, int, int]) -> None:
    model = build(network_for(shape[0]), shape[0], 100, torch.Generator()).eval()
    assert model(torch.rand(2, *shape)).shape == (2, 100)


def test_one_seed_gives_one_set_of_weights_whatever_the_global_generator() -> None:
    known = examples(datasets.raw.validate("colours", two_colours(), "here"))
    states = []
    for seed, disturbance in ((0, 1), (0, 2), (1, 2)):
        torch.manual_seed(disturbance)
        generator = torch.Generator().manual_seed(seed)
        model = build("resnet", 3, 2, generator)
        train(model, known.images, known.labels, BRIEF, generator, lambda *_: None)
        states.append(model.state_dict())
    first, again, other = states
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert not torch.equal(first["1.weight"], other["1.weight"])


def test_augmentation_moves_images_a_little_and_each_by_its_own_draw() -> None:
    generator = torch.Generator().manual_seed(0)
    image = torch.zeros(1, 1, 28, 28)
    image[..., 12:16, 12:16] = 1  # stays inside, whatever is done
    moved = augment(image.expand(64, -1, -1, -1), RECIPES["lenet"], generator)
    assert moved.min() >= 0 and moved.max() <= 1 + 1e-6
    assert moved.sum((1, 2, 3)) == pytest.approx(torch.full((64,), 16.0), rel=0.35)
    places = torch.arange(28.0)
    centres = (moved.sum((1, 2)) * places).sum(1) / moved.sum((1, 2, 3))
    assert (centres - 13.5).abs().max() < 0.07 * 28 * 1.2 + 0.5
    assert centres.std() > 0.5


def test_a_shift_is_a_share_of_the_side() -> None:
    """Of many draws the farthest come near to it, and none goes beyond."""
    image = torch.zeros(1, 1, 28, 28)
    image[..., 12:16, 12:16] = 1
    recipe = dataclasses.replace(RECIPES["lenet"], rotation=0, scale=0)
    moved = augment(image.expand(64, -1, -1, -1), recipe, torch.Generator().manual_seed(0))
    for axis in (2, 3):
        centres = (moved.sum((1, 5 - axis)) * torch.arange(28.0)).sum(1) / 16
        assert 0.9 * 0.07 * 28 < (centres - 13.5).abs().max() <= 0.07 * 28 + 1e-4


def test_flips_mirror_half_of_the_images_where_the_recipe_says_so() -> None:
    half = torch.zeros(400, 3, 16, 16)
    half[..., :8] = 1
    bright_left = [
        augment(half, RECIPES[name], torch.Generator().manual_seed(0))[..., :8].mean((1, 2, 3)) > 0.5
        for name in ("lenet", "resnet")
    ]
    assert bright_left[0].all()
    assert 150 < int(bright_left[1].sum()) < 250


def test_images_are_turned_and_scaled_but_not_sheared(monkeypatch: pytest.MonkeyPatch) -> None:
    place, given = F.affine_grid, list[torch.Tensor]()
    monkeypatch.setattr(
        F, "affine_grid", lambda maps, *more, **named: given.append(maps) or place(maps, *more, **named)
    )
    augment(torch.zeros(64, 1, 4, 4), RECIPES["resnet"], torch.Generator().manual_seed(0))
    (maps,) = (one[:, :, :2] for one in given)
    scale = torch.linalg.det(maps).abs()
    assert torch.linalg.det(maps).sign().unique().tolist() == [-1, 1]
    assert (maps[:, 0, 1].abs() > 0.01).any()
    assert torch.allclose(maps @ maps.mT, scale[:, None, None] * torch.eye(2), atol=1e-6)


# The cache.


@pytest.fixture
def colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Obtain:
    """Return `ask` for a dataset of its own, with a cache of its own, trained for a moment only."""
    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(RECIPES, "resnet", BRIEF)
    np.savez(tmp_path / "colours.npz", **two_colours())
    return lambda name: ask(name, tmp_path)


def folder(tmp_path: Path) -> Path:
    return judge_folder(datasets.fingerprint("colours", tmp_path))


def test_trained_once(colours: Obtain, tmp_path: Path) -> None:
    first, reports, _ = colours("colours")
    assert reports > 0
    again, reports, notices = colours("colours")
    assert reports == 0 and notices == []
    assert again.card == first.card
    assert first.card.weights_sha256 == sha256_file(folder(tmp_path) / "weights.safetensors")
    images = torch.rand(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(first.kl(images, images.flip(0)), again.kl(images, images.flip(0)))
    assert {path.name for path in folder(tmp_path).iterdir()} - {"lock"} == {"card.json", "weights.safetensors"}


def test_a_judge_of_another_source_is_told_and_kept(colours: Obtain, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _, _ = colours("colours")
    monkeypatch.setattr("bench.scoring.judges.obtain.training_sha", lambda: "another")
    again, reports, notices = colours("colours")
    assert again.card == first.card and reports == 0
    assert [notice.split(":")[0] for notice in notices] == ["judge of colours"] and "source" in notices[0]


@pytest.mark.parametrize("damage", ["altered weights", "missing weights", "broken card"])
def test_damaged_files_are_found_named_and_replaced(colours: Obtain, tmp_path: Path, damage: str) -> None:
    first, _, _ = colours("colours")
    weights, card = folder(tmp_path) / "weights.safetensors", folder(tmp_path) / "card.json"
    if damage == "altered weights":
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
    elif damage == "missing weights":
        weights.unlink()
    else:
        card.write_text("{")
    again, reports, notices = colours("colours")
    assert reports > 0
    assert len(notices) == 1 and "colours" in notices[0] and str(folder(tmp_path)) in notices[0]
    assert again.card.weights_sha256 == first.card.weights_sha256 == sha256_file(weights)


def test_other_data_have_another_judge(colours: Obtain, tmp_path: Path) -> None:
    colours("colours")
    before = folder(tmp_path)
    np.savez(tmp_path / "colours.npz", **two_colours(80))
    assert folder(tmp_path) != before
    judge, reports, notices = colours("colours")
    assert judge.card.n_train == 80 and reports > 0 and notices == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BENCH_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(UserError, match="BENCH_CACHE_DIR"):
        ask("digits")


@pytest.mark.slow
@pytest.mark.skipif(not (DATA and (Path(DATA) / "mnist.npz").exists()), reason="BENCH_DATA_DIR holds no mnist.npz")
def test_a_judge_of_mnist_errs_on_fewer_than_one_digit_in_a_hundred() -> None:
    judge, _, _ = ask("mnist", Path(str(DATA)))
    assert judge.card.accuracy >= 0.99
