"""Crops undone: views of images with black borders, whose movement is known."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attacking import attacked, sgd_network, victim_of
from torch import Tensor

from attacks.base import Attack
from attacks.cocktail_party import CocktailParty
from attacks.cocktail_party_features import CocktailPartyFeatures
from attacks.independent_components.crops import uncropped
from bench.plan import registry
from victims.ordinary.augmentation import Augmenter
from victims.recipes import Augmentation
from victims.spec import CNNSpec, VictimSpec

CROP, BLACK = 3, torch.tensor([-2.0, -1.9, -1.7])[:, None, None]
MOVES = [(down, right) for down in range(-CROP, CROP + 1) for right in range(-CROP, CROP + 1)]

PLAIN = sgd_network("photos", 10, (70, 40), lr=0.02, batch_size=3, epochs=10)
MLP = PLAIN.model_copy(
    update={"training": PLAIN.training.model_copy(update={"augmentation": Augmentation(crop=1)})},
)
CNN = MLP.model_copy(
    update={"name": "photos-cnn-10-c10-sgd", "architecture": CNNSpec(channels=(4,), hidden=(70,), outputs=10)}
)


def scenes(count: int) -> Tensor:
    """Bright images (m, 3, 14, 16) with texture up to their edges, no side of which is flat and dark."""
    generator = torch.Generator().manual_seed(1)
    return torch.rand(count, 3, 14, 16, generator=generator) * 2.5 - 0.5


def moved(image: Tensor, down: int, right: int) -> Tensor:
    """An image that was moved, with black beside it."""
    padded = BLACK.expand(3, 14 + 2 * CROP, 16 + 2 * CROP).clone()
    padded[:, CROP : CROP + 14, CROP : CROP + 16] = image
    return padded[:, CROP - down : CROP - down + 14, CROP - right : CROP - right + 16]


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
    views = Augmenter(Augmentation(crop=CROP), 0.0, BLACK, seed=0).moved(images)
    assert not torch.equal(views, images)
    inner = (slice(None), slice(None), slice(CROP, -CROP), slice(CROP, -CROP))
    torch.testing.assert_close(uncropped(views, CROP)[inner], images[inner])


@pytest.mark.parametrize(("kind", "spec"), [(CocktailParty, MLP), (CocktailPartyFeatures, CNN)])
def test_an_attack_moves_its_candidates_back_where_it_is_asked(kind: type[Attack[Any]], spec: VictimSpec) -> None:
    left, undone = (attacked(kind(kind.Params(crops=crops)), victim_of(spec)).candidates for crops in (0, 1))
    assert torch.equal(undone, uncropped(left, 1))
    assert not torch.equal(undone, left)


@pytest.mark.parametrize("kind", [CocktailParty, CocktailPartyFeatures])
def test_crops_are_undone_where_there_were_some(kind: type[Attack[Any]]) -> None:
    network = {CocktailParty: "mlp", CocktailPartyFeatures: "cnn"}[kind]
    moved, stayed = (
        registry.victims().items[f"cifar-{network}-100-c10-finetuned-{habit}"] for habit in ("flips-crops", "flips")
    )
    assert isinstance(moved, VictimSpec)
    assert isinstance(stayed, VictimSpec)
    undoing = kind(kind.Params(**kind.variants["crops"]))
    assert undoing.supports(moved) is None
    assert "moved no image" in str(undoing.supports(stayed))
    assert kind(kind.Params()).supports(stayed) is None
    assert "crops" in kind.audits
