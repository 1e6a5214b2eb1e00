"""The divergence that a judge measures: what it is, and that bad images spoil none but themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.scoring.judges import Judge, JudgeCard
from bench.scoring.judges.networks import build
from victims import datasets

SHAPE = (1, 8, 8)


def by_hand(logits: Callable[[Tensor], Tensor]) -> Judge:
    """A judge of 1 x 8 x 8 images whose network is a given function."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.anchor = nn.Parameter(torch.zeros(()))

        def forward(self, images: Tensor) -> Tensor:
            return logits(images)

    card = JudgeCard.model_construct(dataset="none", network="lenet", shape=SHAPE, accuracy=1.0)
    return Judge(card, Model())


@pytest.fixture(scope="module")
def digits() -> tuple[Judge, Tensor]:
    """An untrained judge, and some digits: enough to measure with."""
    images = torch.from_numpy(datasets.load("digits", None).train_images[:40])
    judge = by_hand(build("lenet", 1, 10, torch.Generator().manual_seed(0)).eval())
    return judge, images


def test_kl_is_torchs(digits: tuple[Judge, Tensor]) -> None:
    judge, images = digits
    references = images.flip(0)
    with torch.no_grad():
        log_image, log_reference = (judge.model(x).double().log_softmax(1) for x in (images, references))
    expected = F.kl_div(log_image, log_reference, reduction="none", log_target=True).sum(1)
    value = judge.kl(images, references)
    assert value.dtype == torch.float32 and value.shape == (40,)
    torch.testing.assert_close(value.double(), expected, rtol=1e-6, atol=1e-9)


def test_kl_of_an_image_from_itself_is_zero(digits: tuple[Judge, Tensor]) -> None:
    judge, images = digits
    assert torch.equal(judge.kl(images, images), torch.zeros(40))


def test_the_reference_comes_first() -> None:
    def logits(images: Tensor) -> Tensor:
        """The brightness of an image is the probability of its second class."""
        second = images.mean((1, 2, 3))
        return torch.stack([1 - second, second], 1).log()

    reference, image = torch.full((1, *SHAPE), 0.5), torch.full((1, *SHAPE), 0.9)
    forward = 0.5 * np.log(0.5 / 0.9) + 0.5 * np.log(0.5 / 0.1)
    backward = 0.9 * np.log(0.9 / 0.5) + 0.1 * np.log(0.1 / 0.5)
    judge = by_hand(logits)
    assert float(judge.kl(images=image, references=reference)) == pytest.approx(forward, rel=1e-5)
    assert float(judge.kl(images=reference, references=image)) == pytest.approx(backward, rel=1e-5)


def test_kl_stays_finite_where_probabilities_underflow() -> None:
    judge = by_hand(lambda images: images.flatten(1)[:, :2] * 1e4)
    image, reference = torch.zeros(1, *SHAPE), torch.zeros(1, *SHAPE)
    image[..., 0, 0], reference[..., 0, 1] = 1, 1
    assert float(judge.kl(image, reference)) == pytest.approx(1e4, rel=1e-6)


def test_spoilt_images_spoil_only_themselves(digits: tuple[Judge, Tensor]) -> None:
    judge, images = digits
    spoilt, references = images.clone(), images.flip(0).clone()
    spoilt[1, 0, 3, 3], spoilt[2] = torch.nan, torch.inf
    references[4, 0, 0, 0] = torch.nan
    value = judge.kl(spoilt, references)
    assert value.isnan().nonzero().flatten().tolist() == [1, 2, 4]
    others = ~value.isnan()
    torch.testing.assert_close(value[others], judge.kl(images, images.flip(0))[others])
    assert judge.kl(torch.zeros(3, *SHAPE), torch.ones(3, *SHAPE)).isfinite().all()


def test_kl_of_many_images_is_that_of_each(digits: tuple[Judge, Tensor]) -> None:
    judge, images = digits
    many, references = images.repeat(30, 1, 1, 1), images.roll(1, 0).repeat(30, 1, 1, 1)
    torch.testing.assert_close(judge.kl(many, references), judge.kl(images, images.roll(1, 0)).repeat(30))
    assert judge.kl(images[:0], images[:0]).shape == (0,)


def test_kl_refuses_images_of_another_shape(digits: tuple[Judge, Tensor]) -> None:
    judge, images = digits
    for wrong, reference in ((images[:3], images), (images[..., 1:], images[..., 1:]), (images[0], images[0])):
        with pytest.raises(ValueError, match="1, 8, 8"):
            judge.kl(wrong, reference)
