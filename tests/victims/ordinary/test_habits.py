"""Jitter, erasing, cutmix, smoothed labels, rounded products and averaged weights: each does what its paper says."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attacking import CPU
from pydantic import ValidationError
from torch import Tensor, nn
from torchvision.transforms.v2 import functional as torchvision

from victims import datasets
from victims.equations.architectures import seeded
from victims.equations.losses import sample_losses
from victims.ordinary.augmentation import APART, ERASED, Augmenter, jittered
from victims.ordinary.descent import Descent, Examples
from victims.ordinary.obtain import data_of
from victims.ordinary.training import Trained, train_ordinary
from victims.recipes import Augmentation, Ordinary, Privacy
from victims.spec import CNNSpec, MLPSpec, VictimSpec

SEED, N, SIDES = 3, 6, (14, 17)
BLACK, WHITE = (torch.tensor(ends)[:, None, None] for ends in ([-2.0, -1.5, -1.8], [2.0, 2.5, 1.9]))
PIXELS = torch.rand(N, 3, *SIDES, generator=torch.Generator().manual_seed(0))
IMAGES = BLACK + (WHITE - BLACK) * PIXELS
SMALL = torch.randn(N, 2, 5, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
NETWORK = MLPSpec(hidden=(9,), outputs=N, biases="every", first_layer_scale=None)


def augmenter(**augmentation: Any) -> Augmenter:
    return Augmenter(Augmentation(**augmentation), 0.0, BLACK, WHITE, SEED)


def factors(*values: float) -> Tensor:
    return torch.tensor(values)[:, None, None, None]


def test_of_other_channels_all_count_alike() -> None:
    pixels = torch.cat([PIXELS, PIXELS[:, :1]], 1)
    grey = jittered(pixels, factors(*[1] * N), factors(*[1] * N), factors(*[0] * N))
    torch.testing.assert_close(grey, pixels.mean(1, keepdim=True).expand_as(pixels))


@pytest.mark.parametrize("channels", [1, 3])
def test_colours_change_as_torchvision_changes_them(channels: int) -> None:
    brightness, contrast, saturation = (1.3, 0.6, 1, 1, 1, 0.8), (1, 1, 1.4, 0.7, 1, 1.2), (1, 1, 1, 1, 1.5, 0.5)
    pixels = PIXELS[:, :channels]
    found = jittered(pixels, factors(*brightness), factors(*contrast), factors(*saturation))
    for each, image in enumerate(pixels):
        expected = torchvision.adjust_brightness(image, brightness[each])
        expected = torchvision.adjust_contrast(expected, contrast[each])
        expected = torchvision.adjust_saturation(expected, saturation[each])
        torch.testing.assert_close(found[each], expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found[0], pixels[0], atol=0.05)


def test_each_image_is_jittered_by_its_own_draw_within_its_range() -> None:
    """The level of a grey image tells its brightness alone."""
    draws, grey = augmenter(jitter=0.4), BLACK + (WHITE - BLACK) * torch.full((N, 3, 2, 2), 0.5)
    seen = torch.cat([(draws.changed(grey) - BLACK) / (WHITE - BLACK) / 0.5 for _ in range(300)])
    torch.testing.assert_close(seen, seen[:, :1, :1, :1].expand_as(seen))
    level = seen[:, 0, 0, 0]
    assert len(level.unique()) > 0.99 * len(level)
    assert 0.6 <= level.min() < 0.61
    assert 1.39 < level.max() <= 1.4


def test_brightness_contrast_and_saturation_are_drawn_apart() -> None:
    generator = torch.Generator().manual_seed(APART + SEED)
    drawn = 1 + 0.4 * (2 * torch.rand(3, N, 1, 1, 1, generator=generator) - 1)
    expected = BLACK + (WHITE - BLACK) * jittered(PIXELS, *drawn)
    torch.testing.assert_close(augmenter(jitter=0.4).changed(IMAGES), expected)


def test_what_is_erased_keeps_no_colour() -> None:
    changed = augmenter(jitter=0.4, erase=1.0).changed(IMAGES)
    gone = (changed == 0).all(1)
    assert (gone.sum((1, 2)) >= 4).all()
    assert (gone.sum((1, 2)) == gone.any(2).sum(1) * gone.any(1).sum(1)).all()


def test_a_rectangle_of_each_image_is_erased_at_any_place() -> None:
    draws, area = augmenter(erase=0.5), SIDES[0] * SIDES[1]
    whole, shares, often = 0, list[float](), torch.zeros(SIDES)
    tall, apart = list[float](), list[float]()
    for _ in range(200):
        for image, changed in zip(IMAGES, draws.changed(IMAGES), strict=True):
            gone = (changed != image).any(0)
            assert (changed[:, gone] == 0).all()
            rows, columns = gone.any(1).nonzero()[:, 0], gone.any(0).nonzero()[:, 0]
            whole += not gone.any()
            often += gone
            if gone.any():
                assert gone.sum() == len(rows) * len(columns)
                assert len(rows) == rows[-1] - rows[0] + 1
                assert len(columns) == columns[-1] - columns[0] + 1
                shares.append(float(gone.sum()) / area)
                tall.append(len(rows) / len(columns))
                if len(rows) < SIDES[0] and len(columns) < SIDES[1]:
                    free = (SIDES[0] - len(rows), SIDES[1] - len(columns))
                    apart.append(abs(float(rows[0]) / free[0] - float(columns[0]) / free[1]))
    assert min(tall) < 0.5
    assert max(tall) > 2
    assert max(apart) > 0.8
    assert 0.45 < whole / (200 * N) < 0.55  # a deviation of .014
    assert min(shares) < ERASED[0] + 0.02
    assert ERASED[1] - 0.04 < max(shares) < ERASED[1] + 0.04
    assert (often > 0).all()


def test_a_rectangle_of_each_image_is_another_images_and_counts_by_its_area() -> None:
    draws, shares = augmenter(cutmix=True), list[float]()
    for _ in range(300):
        mixing = draws.mixing(IMAGES)
        assert mixing.partners is not None
        mixed, others = mixing.of(IMAGES), IMAGES[mixing.partners]
        theirs, ours = (mixed == others).all(1), (mixed == IMAGES).all(1)
        assert (theirs | ours).all()
        moved = mixing.partners != torch.arange(N)
        assert (ours[moved].float().mean((1, 2)) - mixing.own).abs().lt(1e-6).all()
        shares.append(mixing.own)
        loss = mixing.loss(lambda labels: 10.0 ** labels[0], torch.arange(N))  # of the first image, and its partner
        assert float(loss) == pytest.approx(mixing.own + (1 - mixing.own) * 10.0 ** int(mixing.partners[0]))
    assert min(shares) < 0.4
    assert max(shares) > 0.95


def test_the_rectangle_has_the_share_that_was_drawn_and_lies_anywhere() -> None:
    generator, draws, middles = (
        torch.Generator().manual_seed(APART + SEED),
        augmenter(cutmix=True),
        set[tuple[int, ...]](),
    )
    for _ in range(200):
        torch.randperm(N, generator=generator)
        side = math.sqrt(1 - float(torch.rand((), generator=generator)))
        middle = [int(torch.randint(size, (), generator=generator)) for size in SIDES]
        box = draws.mixing(IMAGES).box
        assert box is not None
        for part, size, place in zip(box, SIDES, middle, strict=True):
            half = int(size * side) // 2
            assert (part.start, part.stop) == (max(place - half, 0), min(place + half, size))
        middles.add(tuple(middle))
    assert len(middles) > 100


def stepped(loss: Any, spec: MLPSpec, **training: Any) -> tuple[nn.Module, nn.Module]:
    """A network before and after a step of gradient descent at a rate of 1 on all of SMALL."""
    recipe = Ordinary(momentum=0, weight_decay=0, lr=1, epochs=1, schedule="constant", **training)
    before, model = (seeded(spec, SMALL.shape[1:], SEED).double() for _ in range(2))
    labels = torch.arange(N) % max(spec.outputs, 2)
    Descent(model, Examples(SMALL, labels), loss, recipe, SEED).run(lambda at: None, lambda: None, lambda epoch: None)
    return before, model


def gradients(loss: Tensor, before: nn.Module, after: nn.Module) -> None:
    """Check that the step was down the gradient of a loss."""
    loss.backward()
    for old, new in zip(before.parameters(), after.parameters(), strict=True):
        assert old.grad is not None
        torch.testing.assert_close((old - new).detach(), old.grad, rtol=1e-9, atol=1e-12)


def test_a_smoothed_label_is_torchs() -> None:
    before, after = stepped("cross-entropy", NETWORK, label_smoothing=0.2)
    gradients(F.cross_entropy(before(SMALL), torch.arange(N), label_smoothing=0.2), before, after)


def test_a_smoothed_label_of_two_classes_is_a_target_between_them() -> None:
    one_output = NETWORK.model_copy(update={"outputs": 1})
    before, after = stepped("cross-entropy", one_output, label_smoothing=0.2)
    soft = (torch.arange(N) % 2).double() * 0.8 + 0.1
    gradients(F.binary_cross_entropy_with_logits(before(SMALL), soft), before, after)


def test_a_step_sees_what_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moved, jittered and erased, with black and white where the examples say, in the order of its batch."""
    seen, dtypes, habits = list[Tensor](), set[torch.dtype](), {"flip": True, "crop": 1, "jitter": 0.4, "erase": 0.5}
    model = seeded(NETWORK, IMAGES.shape[1:], SEED)
    model.register_forward_pre_hook(lambda network, given: seen.append(given[0].clone()))

    def losses(loss: Any, outputs: Tensor, labels: Tensor) -> Tensor:
        dtypes.add(outputs.dtype)
        return sample_losses(loss, outputs, labels)

    monkeypatch.setattr("victims.ordinary.descent.sample_losses", losses)
    recipe = Ordinary(epochs=1, mixed_precision=True, augmentation=Augmentation(**habits))
    descent = Descent(model, Examples(IMAGES, torch.arange(N), BLACK, WHITE), "cross-entropy", recipe, SEED)
    descent.run(lambda at: None, lambda: None, lambda epoch: None)
    order = torch.randperm(N, generator=torch.Generator().manual_seed(SEED))
    assert torch.equal(seen[0], augmenter(**habits).changed(IMAGES[order]))
    assert dtypes == {torch.float32}


def test_black_and_white_are_those_of_the_pixels() -> None:
    raw = datasets.load("digits", None)
    spec = VictimSpec(name="digits-mlp-6", dataset="digits", n=6, architecture=MLPSpec(), training=Ordinary())
    members = data_of(spec, raw).members
    pixels = (members.inputs - members.black) / (members.white - members.black)
    found = sorted(image.round(decimals=4).flatten().tolist() for image in pixels)
    every = [torch.as_tensor(image).round(decimals=4).flatten().tolist() for image in raw.train_images]
    assert all(min(max(abs(a - b) for a, b in zip(one, other, strict=True)) for other in every) < 1e-3 for one in found)


def trained(architecture: MLPSpec | CNNSpec = NETWORK, **training: Any) -> Trained:
    spec = VictimSpec(
        name="none-6-c6",
        dataset="none",
        n=N,
        architecture=architecture,
        training=Ordinary(epochs=4, batch_size=N, **training),
    )
    members = Examples(SMALL.float(), torch.arange(N))
    return train_ordinary(spec, members, members, CPU, lambda progress: None)


@pytest.mark.parametrize("architecture", [NETWORK, CNNSpec(channels=(3,), hidden=(7,), outputs=N)])
def test_what_is_released_is_the_average_of_the_weights_after_each_step(architecture: MLPSpec | CNNSpec) -> None:
    """Of running statistics, too, and on the way; the number of batches is no average."""
    plain = trained(architecture, snapshots=(1, 2, 3))
    averaged = trained(architecture, average=0.8, snapshots=(1, 2, 3))
    found = averaged.model.state_dict()
    for name, last in plain.model.state_dict().items():
        if not last.is_floating_point():
            assert torch.equal(found[name], last)
            continue
        expected = plain.snapshots[1][name]
        for epoch, value in ((2, plain.snapshots[2][name]), (3, plain.snapshots[3][name]), (4, last)):
            expected = 0.8 * expected + 0.2 * value
            if epoch in averaged.snapshots:
                torch.testing.assert_close(averaged.snapshots[epoch][name], expected, rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(found[name], expected, rtol=1e-5, atol=1e-7)
        if "bias" not in name:  # batch normalisation leaves those before it where they were
            assert not torch.allclose(found[name], last, rtol=1e-3)


def test_products_are_rounded_in_training_and_weights_are_not() -> None:
    model, seen = seeded(NETWORK, SMALL.shape[1:], SEED), list[torch.dtype]()
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            layer.register_forward_hook(lambda layer, taken, out: seen.append(out.dtype))
    recipe = Ordinary(epochs=1, mixed_precision=True)
    descent = Descent(model, Examples(SMALL.float(), torch.arange(N)), "cross-entropy", recipe, SEED)
    descent.run(lambda at: None, lambda: None, lambda epoch: None)
    assert set(seen) == {torch.bfloat16}
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32}
    (rounded, *_), (exact, *_) = (trained(mixed_precision=each).model.parameters() for each in (True, False))
    assert 0 < float((rounded - exact).detach().norm() / exact.detach().norm()) < 0.01


@pytest.mark.parametrize(
    ("training", "reason"),
    [
        ({"augmentation": {"mixup": True, "cutmix": True}}, "set mixup or cutmix"),
        ({"lora_rank": 2, "average": 0.9}, "set lora_rank or average"),
        ({"mixed_precision": True, "dtype": "float64"}, "set mixed_precision or dtype=float64"),
        ({"privacy": Privacy(), "label_smoothing": 0.1}, "leave out augmentation and dropout, label_smoothing"),
        ({"privacy": Privacy(), "mixed_precision": True}, "and mixed_precision"),
    ],
)
def test_habits_that_exclude_one_another_are_refused(training: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Ordinary.model_validate(training)


def test_a_description_without_them_is_what_it_was() -> None:
    new = {"label_smoothing", "mixed_precision", "average"}
    assert new.isdisjoint(Ordinary().model_dump())
    assert set(Augmentation(flip=True).model_dump()) == {"flip", "crop", "mixup"}
    habits = Ordinary(
        label_smoothing=0.1,
        mixed_precision=True,
        average=0.99,
        augmentation=Augmentation(jitter=0.4, erase=0.5, cutmix=True),
    )
    assert new <= habits.model_dump().keys()
    told = "jitter of 0.4, erasing of 0.5, cutmix, label smoothing 0.1, bfloat16 products, average of 0.99"
    assert told in habits.label
