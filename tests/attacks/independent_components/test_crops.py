"""Crops undone: a span of parts, and attacks that move their candidates back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attacking import CPU, attacked, sgd_network, victim_of
from cropping import BLACK, CROP, MOVES, moved, scenes
from torch import Tensor

from attacks.base import Attack
from attacks.cocktail_party import CocktailParty
from attacks.cocktail_party_features import CocktailPartyFeatures
from attacks.crops.undone import uncropped
from attacks.independent_components.crops import Unmoved, _kept
from attacks.independent_components.span import UpdateSpan
from bench.plan import registry
from victims.equations.network import Network
from victims.ordinary.descent import Examples
from victims.ordinary.difference import difference
from victims.ordinary.training import train_ordinary
from victims.recipes import Augmentation, Ordinary
from victims.spec import CNNSpec, MLPSpec, VictimSpec

PLAIN = sgd_network("photos", 10, (70, 40), lr=0.02, batch_size=3, epochs=10)
MLP = PLAIN.model_copy(
    update={"training": PLAIN.training.model_copy(update={"augmentation": Augmentation(crop=1)})},
)
CNN = MLP.model_copy(
    update={"name": "photos-cnn-10-c10-sgd", "architecture": CNNSpec(channels=(4,), hidden=(70,), outputs=10)}
)


def outside(images: Tensor, basis: Tensor) -> float:
    """The largest share of an image's length that is outside of a span."""
    rows = images.flatten(1)
    return float(((rows - rows @ basis.T @ basis).norm(dim=1) / rows.norm(dim=1)).max())


def parts_of(images: Tensor, moves: list[tuple[int, int]]) -> Tensor:
    """Orthonormal rows that span the parts of images, mixed."""
    parts = torch.stack([moved(image, *move) for image in images for move in moves]).flatten(1).double()
    mixing = torch.randn(len(parts), len(parts), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return torch.linalg.qr((mixing @ parts).T).Q.T


def unmoved(basis: Tensor, crop: int) -> Unmoved | None:
    network = Network((torch.zeros(1, basis.shape[1]), torch.zeros(1, 1)), (None, None))
    return Unmoved.held_by(UpdateSpan(basis, basis, None, network, (network,), "parts"), (3, 14, 16), crop)


@pytest.mark.parametrize(("crop", "count", "more"), [(1, 6, 0), (2, 5, 0), (CROP, 3, 0), (1, 6, 2), (2, 5, 1)])
def test_a_span_of_all_parts_tells_the_images_that_were_cut(crop: int, count: int, more: int) -> None:
    images = scenes(count)
    moves = [move for move in MOVES if max(map(abs, move)) <= crop]
    basis = parts_of(images, moves)
    found = unmoved(basis, crop + more)
    assert found is not None
    rows = found.span.basis
    assert found.span.flag == f"parts, which hold all moves of {count}"
    torch.testing.assert_close(rows @ rows.T, torch.eye(count, dtype=torch.float64))
    assert outside(images.double(), rows) < 1e-6
    assert outside(rows, basis) < 1e-6
    elsewhere = torch.stack([moved(image, 1, 0) for image in images]).double()
    assert outside(elsewhere, rows) > 0.1


def test_black_tells_the_signs() -> None:
    images = scenes(5).double().flatten(1)
    found = unmoved(parts_of(scenes(5), [move for move in MOVES if max(map(abs, move)) <= 1]), 1)
    assert found is not None
    signs = torch.tensor([1.0, -1, -1, 1, -1], dtype=torch.float64)[:, None]
    torch.testing.assert_close(found.signed(signs * images), images)
    torch.testing.assert_close(images @ found.span.basis.T @ found.black, BLACK.mean().double().expand(5))


def test_a_span_without_all_parts_tells_no_image() -> None:
    basis = parts_of(scenes(6), [MOVES[place] for place in range(0, len(MOVES), 3)])
    assert unmoved(basis, CROP) is None
    random = torch.randn(60, 3 * 14 * 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert unmoved(torch.linalg.qr(random.T).Q.T, 1) is None
    assert unmoved(torch.eye(3 * 14 * 16).double(), 1) is None
    assert unmoved(parts_of(scenes(2), MOVES), 0) is None


@pytest.mark.parametrize(
    ("shares", "kept"),
    [
        ([1e-13, 1e-9, 1e-5, 0.01, 0.1], 3),
        ([1e-13, 1e-9, 1e-5, 2e-4, 0.004, 0.05], 0),  # no step by the factor but among those that may be images'
        ([0.01, 0.02, 0.6], 2),
        ([0.01, 0.02, 0.3], 0),
    ],
)
def test_a_gap_ends_what_moves_keep_in_the_span(shares: list[float], kept: int) -> None:
    drawn = torch.randn(len(shares), len(shares), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rotation = torch.linalg.qr(drawn).Q
    found = _kept(rotation @ torch.diag(torch.tensor(shares, dtype=torch.float64)) @ rotation.T)
    assert (0 if found is None else found.shape[1]) == kept
    if found is not None:
        assert torch.allclose(found @ found.T, rotation[:, :kept] @ rotation[:, :kept].T, atol=1e-6)


def test_what_a_training_with_crops_adds_holds_the_images_themselves() -> None:
    images = scenes(4).double()
    spec = VictimSpec(
        name="none-mlp-4-c4",
        dataset="none",
        n=4,
        architecture=MLPSpec(hidden=(90, 9), outputs=4, biases="every", first_layer_scale=None),
        training=Ordinary(
            epochs=100, batch_size=2, lr=0.02, weight_decay=0, dtype="float64", augmentation=Augmentation(crop=1)
        ),
    )
    members = Examples(images, torch.arange(4), BLACK.double())
    trained = train_ordinary(spec, members, members, CPU, lambda progress: None)
    found = difference(*(next(network.parameters()).detach() for network in (trained.model, trained.start)))
    assert found.rank == 4 * 9
    whole = unmoved(found.directions[: found.rank], 1)
    assert whole is not None
    assert len(whole.span.basis) == 4
    assert outside(images, whole.span.basis) < 1e-4


@pytest.mark.parametrize(("kind", "spec"), [(CocktailParty, MLP), (CocktailPartyFeatures, CNN)])
def test_an_attack_moves_its_candidates_back_where_it_is_asked(kind: type[Attack[Any]], spec: VictimSpec) -> None:
    left, undone = (attacked(kind(kind.Params(crops=crops)), victim_of(spec)).candidates for crops in (0, 1))
    assert torch.equal(undone, uncropped(left, 1))
    assert not torch.equal(undone, left)


def test_where_the_span_holds_all_moves_the_images_come_back_whole() -> None:
    many = {"batch_size": 10, "momentum": 0.0, "epochs": 60, "augmentation": Augmentation(crop=1)}
    wide = {"architecture": MLPSpec(hidden=(400, 40), outputs=10, biases="every", first_layer_scale=None)}
    victim = victim_of(PLAIN.model_copy(update=wide | {"training": PLAIN.training.model_copy(update=many)}))
    left, whole = (attacked(CocktailParty(CocktailParty.Params(crops=crops)), victim) for crops in (0, 1))
    assert len(left.candidates) == 90
    assert whole.flags[0].endswith("90 directions, which hold all moves of 10")
    images = torch.from_numpy(victim.split.inputs).flatten(1)
    products = F.normalize(images) @ F.normalize(whole.candidates.flatten(1)).T
    assert float(products.amax(1).min()) > 0.8


@pytest.mark.parametrize(("kind", "spec"), [(CocktailParty, MLP), (CocktailPartyFeatures, CNN)])
def test_mirror_images_follow_behind_all(kind: type[Attack[Any]], spec: VictimSpec) -> None:
    one, both = (attacked(kind(kind.Params(flips=flips)), victim_of(spec)) for flips in (False, True))
    assert torch.equal(both.candidates, torch.cat([one.candidates, one.candidates.flip(3)]))
    assert one.confidence is not None and both.confidence is not None
    assert torch.equal(both.confidence, torch.cat([one.confidence, one.confidence - 1]))
    assert both.loss == one.loss


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
