"""Mirrored, cropped and mixed images and dropout: what a step sees, what it descends on, and what W1 then holds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from attacking import CPU
from pydantic import ValidationError
from torch import Tensor, nn

from victims.equations.architectures import seeded
from victims.ordinary.augmentation import Augmenter, Mixing
from victims.ordinary.descent import Descent, Examples
from victims.ordinary.difference import difference
from victims.ordinary.training import train_ordinary
from victims.recipes import Augmentation, Ordinary, Privacy
from victims.spec import CNNSpec, MLPSpec, VictimSpec

SEED, N, BLACK = 3, 4, torch.tensor([-1.5, 0.25])[:, None, None]
WHITE = BLACK + 3
IMAGES = torch.randn(N, 2, 5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
NETWORK = MLPSpec(hidden=(90, 9), outputs=N, biases="every", first_layer_scale=None)


def augmenter(dropout: float = 0.0, **augmentation: Any) -> Augmenter:
    return Augmenter(Augmentation(**augmentation), dropout, BLACK.double(), WHITE.double(), SEED)


def views(image: Tensor, crop: int, flip: bool) -> list[Tensor]:
    """All that may be seen of an image (2, 5, 6)."""
    padded = BLACK.double().expand(2, 5 + 2 * crop, 6 + 2 * crop).clone()
    padded[:, crop : crop + 5, crop : crop + 6] = image
    places = [(down, right) for down in range(2 * crop + 1) for right in range(2 * crop + 1)]
    cut = [padded[:, down : down + 5, right : right + 6] for down, right in places]
    return cut + [view.flip(2) for view in cut] * flip


@pytest.mark.parametrize(("crop", "flip"), [(0, True), (1, False), (2, False), (1, True)])
def test_every_view_of_an_image_is_seen_and_nothing_else(crop: int, flip: bool) -> None:
    draws, expected = augmenter(crop=crop, flip=flip), [views(image, crop, flip) for image in IMAGES]
    seen: list[set[int]] = [set() for _ in IMAGES]
    for _ in range(50 * len(expected[0])):
        for which, image in enumerate(draws.moved(IMAGES)):
            (place,) = (place for place, view in enumerate(expected[which]) if torch.equal(view, image))
            seen[which].add(place)
    assert seen == [set(range(len(expected[0])))] * N


def test_without_augmentation_a_batch_is_what_it_was() -> None:
    assert augmenter().changed(IMAGES) is IMAGES
    assert augmenter().mixing(IMAGES) == Mixing()
    assert Mixing().of(IMAGES) is IMAGES


def test_a_step_on_a_mixed_batch_descends_on_both_labels() -> None:
    spec = MLPSpec(hidden=(7,), outputs=N, biases="every", first_layer_scale=None)
    training = Ordinary(augmentation=Augmentation(mixup=True), momentum=0, weight_decay=0, lr=0.1, epochs=1)
    model, labels = seeded(spec, IMAGES.shape[1:], SEED).double(), torch.arange(N)
    begun = {name: value.clone() for name, value in model.named_parameters()}
    Descent(model, Examples(IMAGES, labels), "cross-entropy", training, SEED).run(
        lambda progress: None, lambda: None, lambda epoch: None
    )
    order = torch.randperm(N, generator=torch.Generator().manual_seed(SEED))
    mixing = augmenter(mixup=True).mixing(IMAGES)
    assert mixing.partners is not None
    assert 0 < mixing.own < 1
    images, partners = IMAGES[order], IMAGES[order][mixing.partners]
    targets = nn.functional.one_hot(order), nn.functional.one_hot(order[mixing.partners])
    before = seeded(spec, IMAGES.shape[1:], SEED).double()
    soft = mixing.own * targets[0] + (1 - mixing.own) * targets[1]
    mixed = mixing.own * images + (1 - mixing.own) * partners
    (-(soft * before(mixed).log_softmax(1)).sum(1).mean()).backward()
    for name, value in before.named_parameters():
        assert value.grad is not None
        moved = dict(model.named_parameters())[name] - begun[name]
        torch.testing.assert_close(moved.detach(), -0.1 * value.grad, rtol=1e-9, atol=1e-12)


def test_shares_of_mixup_are_uniform_and_partners_are_everybody() -> None:
    draws = augmenter(mixup=True)
    drawn = [draws.mixing(IMAGES) for _ in range(400)]
    own = torch.tensor([mixing.own for mixing in drawn])
    counts = torch.histc(own, 4, 0, 1)
    assert (counts > 60).all()  # 100 each, with a deviation of 9
    assert {int(mixing.partners[0]) for mixing in drawn if mixing.partners is not None} == set(range(N))


def dropped(spec: MLPSpec | CNNSpec, training: bool) -> list[tuple[Tensor, Tensor]]:
    """What each fully connected layer is given, without dropout and with it."""
    model, images = seeded(spec, (2, 5, 6), SEED).double(), IMAGES.repeat(200, 1, 1, 1)
    model.eval()
    linears, taken = [layer for layer in model.modules() if isinstance(layer, nn.Linear)], list[Tensor]()
    for layer in linears:
        layer.register_forward_hook(lambda layer, given, out: taken.append(given[0].detach()))
    model(images)
    augmenter(dropout=0.25).drop(model)
    for layer in linears:
        layer.train(training)
    model(images)
    return list(zip(taken[: len(linears)], taken[len(linears) :], strict=True))


@pytest.mark.parametrize("spec", [NETWORK, CNNSpec(channels=(3,), hidden=(30, 8), outputs=N)])
def test_dropout_leaves_out_hidden_neurons_and_keeps_the_mean(spec: MLPSpec | CNNSpec) -> None:
    (seen, first), (hidden, second), *_ = dropped(spec, training=True)
    assert torch.equal(seen, first)
    kept = second != 0
    torch.testing.assert_close(second[kept], hidden[kept] / 0.75)
    share = float(kept[hidden != 0].double().mean())
    assert 0.73 < share < 0.77  # of more than 10,000
    assert float((second == 0)[hidden != 0].any(0).double().mean()) > 0.9


def test_dropout_is_over_when_training_is() -> None:
    assert all(torch.equal(given, then) for given, then in dropped(NETWORK, training=False))


def added(**training: Any) -> tuple[Tensor, Tensor]:
    """What a training in float64 has added to W1 (h, d) and to its biases (h,)."""
    spec = VictimSpec(
        name="none-mlp-4-c4",
        dataset="none",
        n=N,
        architecture=NETWORK,
        training=Ordinary(epochs=60, batch_size=2, weight_decay=0, lr=0.02, dtype="float64", **training),
    )
    members = Examples(IMAGES, torch.arange(N), BLACK.double())
    trained = train_ordinary(spec, members, members, CPU, lambda progress: None)
    (weight, bias), (last, end) = (list(net.parameters())[:2] for net in (trained.start, trained.model))
    return (last - weight).detach(), (end - bias).detach()


@pytest.mark.parametrize(
    ("training", "seen"),
    [
        ({"augmentation": Augmentation(mixup=True)}, N),
        ({"dropout": 0.5}, N),
        ({"label_smoothing": 0.1, "average": 0.9}, N),
        ({"augmentation": Augmentation(flip=True), "dropout": 0.3}, 2 * N),
        ({"augmentation": Augmentation(crop=1, mixup=True)}, 9 * N),
    ],
    ids=("mixup", "dropout", "smoothing and average", "flips and dropout", "crops and mixup"),
)
def test_what_is_added_has_as_many_directions_as_there_are_views(training: dict[str, Any], seen: int) -> None:
    weight, _ = added(**training)
    assert difference(weight, torch.zeros_like(weight)).rank == seen


def test_the_twin_of_a_victim_without_these_habits_has_the_same_key() -> None:
    plain = Ordinary().model_dump()
    assert not plain.keys() & {"augmentation", "dropout"}
    assert Ordinary(dropout=0.5).model_dump()["dropout"] == 0.5
    assert Ordinary(augmentation=Augmentation(flip=True)).model_dump()["augmentation"]["flip"]


@pytest.mark.parametrize("habit", [{"dropout": 0.5}, {"augmentation": Augmentation(crop=1)}])
def test_private_training_takes_records_as_they_are(habit: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="leave out augmentation and dropout"):
        Ordinary(privacy=Privacy(), **habit)


def test_a_label_names_the_habits() -> None:
    augmentation = Augmentation(flip=True, crop=4, mixup=True)
    assert "flips, crops of 4, mixup, dropout 0.5" in Ordinary(augmentation=augmentation, dropout=0.5).label
    assert "flips" not in Ordinary().label
